"""``tinytorch machine``: identity, ceilings, levels, ladders, evidence and cautions of this machine."""

import argparse
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tinytorch.cli.usage import Parser, check_folder, progress
from tinytorch.perf.host.identity import Identity
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.machine import Ceilings, ceilings, identity
from tinytorch.perf.machine.blas_costs import BusyNeighbour, Caution, busy_neighbour, collapsing_blas, narrow_blas
from tinytorch.perf.machine.levels import CURVES
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.codec import Format
from tinytorch.perf.measuring.text_table import aligned
from tinytorch.report.numbers import format_measurement
from tinytorch.report.provenance import bytes_text, identity_rows


@dataclass(frozen=True)
class Limits:
    """Ceilings on one thread and on all cores, cautions, and the cost of a busy process; None on one core."""

    ceilings: tuple[Ceilings, ...]
    warnings: tuple[Caution, ...]
    busy_neighbour: BusyNeighbour | None


#: What ``--json`` writes; ``machine`` has the fields of `Identity`. Units are "s", "Hz", "B/s", "FLOP/s", "OP/s", or ""
#: for a ratio; sizes are bytes.
MACHINE = Format("tinytorch-machine", 5, Limits, "`tinytorch machine --json FILE`")


def add(machine: Parser) -> None:
    """Add the command's options to its parser."""
    machine.add_argument(
        "--refresh", action="store_true", help="measure again instead of reading the results of an earlier run"
    )
    machine.add_argument("--json", metavar="FILE", help="write all results as JSON")
    machine.set_defaults(run=_run)


def _run(chosen: argparse.Namespace) -> None:
    check_folder("json", chosen.json)
    here = identity()
    limits = _measured_limits(here, chosen.refresh)
    if chosen.json:
        MACHINE.write(chosen.json, limits, here.to_json())
    _print(here, limits)


def _measured_limits(made: Identity, refresh: bool) -> Limits:
    """Return the limits of this machine; what is not kept is measured, and a terminal is shown how far it is."""
    cores = len(usable_cores())
    threads = (1, cores) if cores > 1 else (1,)
    with progress() as shown:
        task = shown.add_task("machine", total=len(threads) + 1)

        def ceilings_of(number: int) -> Ceilings:
            def told(stage: str, part: float) -> None:
                words = f"{threads[number]} thread{'s' * (threads[number] > 1)}: {stage}"
                shown.update(task, description=words, completed=number + part, refresh=True)

            return ceilings(threads[number], refresh=refresh, on_progress=told)

        measured = tuple(ceilings_of(number) for number in range(len(threads)))
        shown.update(task, description="BLAS", completed=len(threads), refresh=True)
        neighbour = busy_neighbour(cores) if cores > 1 else None
        cautions = (narrow_blas(made), collapsing_blas(neighbour) if neighbour else None)
    return Limits(measured, tuple(one for one in cautions if one), neighbour)


def _print(made: Identity, limits: Limits) -> None:
    """Print everything, each value with its 95 % interval."""
    measured, neighbour = limits.ceilings, limits.busy_neighbour
    _print_rows(("", "This machine"), identity_rows(made))
    _print_rows(["Ceiling", *map(_threads, measured)], _ceiling_rows(measured), _sources(measured))
    for each in measured:
        levels = [
            [level.name, level.told_by or "–", bytes_text(level.capacity_reported)]
            + [_shown(getattr(level, curve)) for curve in CURVES]
            for level in each.levels
        ]
        note = f"Levels of memory, {_threads(each)}; bandwidths of all together."
        _print_rows(("Level", "told by", "reported size", *CURVES), levels, [note])
        ladder = [
            [bytes_text(steps[0].working_set), *(_shown(step.reached) for step in steps)]
            for steps in zip(*(each.curves[curve] for curve in CURVES), strict=True)
        ]
        _print_rows(("Working set", *CURVES), ladder, [f"Ladder, {_threads(each)}."])
    for name, found in measured[0].evidence.items():
        print(f"{name} ran on {', '.join(f'{count} × {what}' for what, count in found.items()) or 'no vectors'}")
    if neighbour and not any(one.what == "busy neighbour" for one in limits.warnings):
        print(neighbour.sentence())
    for caution in limits.warnings:
        print(f"Warning: {caution.sentence}")


def _print_rows(heads: Sequence[str], rows: Iterable[Sequence[str]], notes: Sequence[str] = ()) -> None:
    numeric = [at > 0 and heads[0] != "" for at in range(len(heads))]
    print("\n".join([aligned([heads, *rows], numeric), *notes]), end="\n\n")


def _threads(made: Ceilings) -> str:
    return "1 thread" if made.threads == 1 else f"{made.threads} threads"


def _shown(value: Measurement | None) -> str:
    """Return the value with the ends of its interval: "258.1 GFLOP/s (256.9 to 260.0)"."""
    return "none" if value is None else format_measurement(value).cell_with_interval


def _ceiling_rows(all_made: Sequence[Ceilings]) -> list[list[str]]:
    sweep = [
        [f"  at {count} FLOPs an element", *(_shown(dict(made.multiply_add).get(count)) for made in all_made)]
        for count, _ in all_made[0].multiply_add
    ]
    return [
        ["FP32 peak", *(_shown(made.fp32_peak) for made in all_made)],
        *sweep,
        ["  sgemm", *(_shown(made.sgemm) for made in all_made)],
        ["INT8 peak", *(_shown(made.int8_peak) for made in all_made)],
        ["Clock", *(_shown(made.clock) for made in all_made)],
        ["First touch of a page", *(_shown(made.page_fault) for made in all_made)],
    ]


def _sources(all_made: Sequence[Ceilings]) -> list[str]:
    notes = [f"FP32 peak on {_threads(made)}: {made.fp32_from}." for made in all_made]
    notes += [f"INT8: {all_made[0].int8_from}."]
    for made in all_made:
        huge = made.taken.huge_page_bytes
        pages = "unknown pages" if huge is None else f"{bytes_text(huge)} of huge pages" if huge else "normal pages"
        notes.append(f"{_threads(made)}: measured {made.taken.when} in {made.taken.seconds:.1f} s, on {pages}.")
        if made.taken.note:
            notes.append(f"{_threads(made)}: {made.taken.note}.")
    return notes
