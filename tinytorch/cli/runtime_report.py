"""``tinytorch profile model.onnx`` in ONNX Runtime: where the time of a file goes, and what would make it faster."""

from __future__ import annotations

import argparse
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch.cli.program_report import facts_table, machine_table, paragraphs, roofline, section
from tinytorch.cli.usage import UsageError, check_batch, sizes
from tinytorch.core.op import Array
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.machine import store
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.model_io import saved_arrays
from tinytorch.perf.onnx import from_onnx
from tinytorch.perf.onnx.nodes import CONVERSIONS
from tinytorch.perf.onnx.runtime import CPU, Declared, RefusedError, Settings, default_threads, file_bytes
from tinytorch.perf.onnx.runtime_profile import (
    Advice,
    Group,
    RuntimeProfile,
    advice,
    made_inputs,
    profile_file,
    side_by_side,
)
from tinytorch.report import tables
from tinytorch.report.numbers import format_measurement, format_number
from tinytorch.report.provenance import Fact
from tinytorch.report.standalone import standalone_page
from tinytorch.report.tables import Column

SCHEMA_NAME, SCHEMA_VERSION = "tinytorch-onnx-runtime-profile", 1
#: Relative difference of times between two files that matters.
_MATTERS = 0.05


def run(chosen: argparse.Namespace, given: Mapping[str, float], measure_ceilings: Callable[[int], None]) -> int:
    """Profile a file as the options say, print the report, and write the files that were asked for.

    ``measure_ceilings`` measures what this machine can do on a number of threads, if that is not known.
    """
    for option in ("backward", "save"):
        if getattr(chosen, option):
            why = "ONNX Runtime runs only the forward pass" if option == "backward" else "it keeps runs of this package"
            raise UsageError(f"--{option} needs --engine tinytorch, because {why}")
    if not Path(chosen.model).is_file():
        raise FileNotFoundError(2, "No such file or directory", chosen.model)
    if chosen.beside and Path(chosen.beside).suffix.lower() != ".onnx":
        raise UsageError(f"--beside compares two ONNX files, but {chosen.beside} is not an ONNX file")
    if chosen.inputs and (chosen.input_shape or chosen.seq_len or chosen.batch or chosen.axis):
        raise UsageError(
            "--inputs cannot be combined with --batch, --input-shape, --seq-len or --axis: its arrays have their shapes"
        )
    settings = Settings(
        chosen.threads or default_threads(), chosen.optimization or "all", tuple(chosen.provider or (CPU,))
    )
    inputs = partial(_inputs, chosen, given)
    cores = len(usable_cores())
    if settings.threads > cores:
        raise UsageError(f"--threads must be 1 to {cores}, the cores that this process may use, not {settings.threads}")
    try:
        done = profile_file(chosen.model, settings, inputs, default_threads(), chosen.trace)
        measure_ceilings(settings.threads)
        done = replace(done, ceilings=store.kept_ceilings(settings.threads))
        facts = [*_facts(done), *_other_batch(chosen, settings, given, done)]
        compared = _beside(chosen, settings, done) if chosen.beside else []
    except RefusedError as error:
        raise UsageError(f"{error}{_ours(chosen.model)}") from error
    except RuntimeError as error:
        reads = find_spec("onnx") is not None  # without it this package reads no file either
        ours = f"; --engine tinytorch runs {chosen.model} in this package instead" * reads
        raise UsageError(f"{error}{ours}") from error
    found = advice(done)
    if chosen.json:
        document = _document(done, facts, compared, found)
        write_whole(chosen.json, json.dumps(document, allow_nan=False))
    if chosen.html:
        write_whole(chosen.html, _html(chosen, done, facts, compared, found))
    print(_text(chosen, done, facts, compared, found))
    return 0


def _ours(path: str) -> str:
    """Return an offer of this package's own engine if it can read the file; "" if it cannot."""
    try:
        from_onnx(path)
    except Exception:  # whatever is wrong with the file
        return ""
    return "; --engine tinytorch can read the file, and may run it"


def _inputs(
    chosen: argparse.Namespace, given: Mapping[str, float], declared: Sequence[Declared], batch: int | None = None
) -> dict[str, Array]:
    """Return the inputs from ``--inputs``, or synthetic ones whose shapes follow from the file and the options."""
    if chosen.inputs:
        return _saved_inputs(chosen.inputs, given, declared)
    lengths = dict[str, int]()
    for each in chosen.axis:
        name, _, length = each.rpartition("=")
        if not name or not length.isdigit():
            raise UsageError(f"--axis must be NAME=N, such as sequence=128, not {each!r}")
        lengths[name] = int(length)
    first = sizes("--input-shape", chosen.input_shape) if chosen.input_shape else None
    if chosen.seq_len is not None:
        if first is not None:
            raise UsageError("--seq-len and --input-shape exclude each other: the shape has the number of positions")
        if not declared or len(declared[0].shape) != 2:
            told = ", ".join(map(str, declared))
            raise UsageError(f"--seq-len needs an input of shape (batch, positions), not {told}")
        first = (chosen.seq_len,)
    batch = batch or chosen.batch
    lengths_of = [[length for length in each.shape[1:] if isinstance(length, int)] for each in declared]
    largest = max(map(math.prod, lengths_of), default=1)
    check_batch("--batch", batch or 1, 4 * max(largest, math.prod(first or (1,))))
    made = made_inputs(declared, lengths, batch, first, given)
    fixed = made[declared[0].name].shape[:1] if declared else ()
    if batch == chosen.batch and fixed not in ((), (batch or fixed[0],)):
        raise UsageError(f"--batch {batch} does not fit: the file or --axis fixes a batch of {fixed[0]}")
    return made


def _saved_inputs(path: str, given: Mapping[str, float], declared: Sequence[Declared]) -> dict[str, Array]:
    """Return the arrays of a file, and what ``given`` fixes in shapes that follow from theirs."""
    arrays, numbers = saved_arrays(path, "--inputs"), [each for each in declared if each.name in given]
    wanted = [each.name for each in declared if each.name not in given]
    if len(numbers) < len(given):
        unknown = ", ".join(name for name in given if name not in {each.name for each in declared})
        raise UsageError(f"--given must name inputs of {', '.join(each.name for each in declared)}, not {unknown}")
    if set(arrays) != set(wanted):
        raise UsageError(f"--inputs must hold the inputs {', '.join(wanted)}, and {path} holds {', '.join(arrays)}")
    lengths = {
        length: size
        for each in declared
        if each.name in arrays
        for length, size in zip(each.shape, arrays[each.name].shape, strict=False)
        if isinstance(length, str)
    }
    made = made_inputs(numbers, lengths, given=given)
    return {each.name: made[each.name] if each.name in made else arrays[each.name] for each in declared}


def _other_batch(
    chosen: argparse.Namespace, settings: Settings, given: Mapping[str, float], done: RuntimeProfile
) -> list[Fact]:
    """Return the latency at batch 1, and how much faster a call at ``--batch`` is than calls at batch 1."""
    if not chosen.batch or chosen.batch == 1 or chosen.inputs:
        return []
    alone = _inputs(chosen, given, done.declared, 1)
    if all(each.shape == done.inputs[name].shape for name, each in alone.items()):
        return []  # the file or --axis fixes the batch, so both calls would be the same
    both = side_by_side(
        {"1": (done.path, settings), str(chosen.batch): (done.path, settings)},
        lambda name, declared: _inputs(chosen, given, declared, int(name)),
        8.0,
    )
    per_input = both.times["1"].scaled(chosen.batch, "s", f"{chosen.batch} calls")
    change = compare_paired(per_input, both.times[str(chosen.batch)], _MATTERS)
    return [
        Fact("latency, batch 1", format_measurement(both.times["1"]).cell_with_interval),
        Fact(
            f"batch {chosen.batch} over batch 1",
            f"speedup per input {format_measurement(change.estimate).cell_with_interval}, {change}",
        ),
    ]


def _facts(done: RuntimeProfile) -> list[Fact]:
    """Return the inputs, the latency, the FLOPs and the memory of the whole file."""
    executed = sum(row.work.flops for row in done.rows)
    weights = sum(each.bytes for each in done.graph.constants.values())
    said = (
        f"{done.work.flops:,} in contractions (matrix products, convolutions, attention), and "
        f"{done.work.elementwise:,} other operations"
    )
    if executed != done.work.flops:
        said += f"; the kernels of ONNX Runtime execute {executed:,} in contractions"
    return [
        *(Fact(f"input {name}", f"{array.shape} of {array.dtype}") for name, array in done.inputs.items()),
        Fact("latency", f"{_cell(done.times.latency)}, {done.times.latency.n} rounds"),
        Fact("time outside of nodes", _cell(done.times.call)),
        Fact("FLOPs", said),
        Fact("weights", _bytes(weights)),
        Fact(
            "memory of the process",
            f"{_bytes(max(done.held, 0))} more after loading, {_bytes(done.grown)} more at the peak",
        ),
        Fact("time to load the file", f"{done.load:.2f} s"),
    ]


def _bytes(count: float) -> str:
    return format_number(count, "B").text


def _cell(value: Measurement) -> str:
    return format_measurement(value).cell_with_interval


@dataclass(frozen=True)
class _Section:
    """A table of the report and its caption."""

    title: str
    rows: list[dict[str, Any]]
    columns: list[Column]
    caption: str
    key: str


_TIMES = [
    Column("seconds", "time", "s"),
    Column("share", "share", "%"),
    Column("interval", "95 % interval of the share"),
]
_WORK = [
    Column("flops", "FLOPs", "FLOP"),
    Column("bytes", "bytes", "B"),
    Column("intensity", "FLOP/B", "FLOP/B"),
    Column("rate", "rate", "FLOP/s"),
    Column("of_roof", "of its roof", "%"),
    Column("bound", "verdict"),
]


def _row(done: RuntimeProfile, group: Group, name: str) -> dict[str, Any]:
    share, placed, work = done.share(group.rows, name), done.placed(group), group.work
    ends = share.interval if share.has_interval else None
    seconds = group.middle
    return {
        "name": name,
        "nodes": len(group.rows),
        "seconds": seconds,
        "share": seconds / done.times.latency.median,
        "interval": "" if ends is None else f"{ends.low:.1%} to {ends.high:.1%}",
        "flops": None if work.uncounted else work.flops,
        "bytes": work.bytes,
        "intensity": (work.flops + work.elementwise) / work.bytes if work.bytes and not work.uncounted else None,
        "rate": work.flops / seconds if work.flops and seconds and not done.is_disturbed else None,
        "of_roof": placed.of_roof.median if placed is not None else None,
        "bound": placed.verdict.sentence_word if placed is not None else _unbound(done, group),
    }


def _unbound(done: RuntimeProfile, group: Group) -> str:
    if work := group.work.uncounted:
        return f"{', '.join(work)} not counted"
    if done.is_disturbed:
        return "times too uncertain"
    return "ceilings not known" if done.ceilings is None else "moves no bytes" if not group.work.bytes else "–"


def _sections(done: RuntimeProfile, limit: int) -> list[_Section]:
    """Return the tables of operators, nodes, modules and joined nodes."""
    few = done.rows[:limit]
    left = sum(row.middle for row in done.rows[limit:]) / done.times.latency.median
    longest = (
        f"The {len(few)} longest of the {len(done.rows)} nodes that run. The others take {left:.1%} of the latency."
    )
    node_rows = [
        _row(done, Group(row.name, (row,)), row.name)
        | {
            "kind": _short(row.kind),
            "module": row.module,
            "of": _joined(row.origins),
            "types": ", ".join(row.types[:2]),
        }
        for row in few
    ]
    kinds = done.groups(lambda row: _short(row.kind))[:limit]
    modules = done.groups(lambda row: row.module or "(no module)")
    found = [
        _Section(
            "Operators",
            [_row(done, group, group.name) for group in kinds],
            [Column("name", "operator"), Column("nodes", "nodes", "1"), *_TIMES, *_WORK],
            f"The times of all nodes and the time outside of nodes add up to the latency. {_uncertainty(done)}",
            "operators",
        ),
        _Section(
            "Nodes",
            node_rows,
            [
                Column("name", "node"), Column("kind", "operator"), Column("of", "nodes of the file"),
                Column("module", "module"), Column("types", "types"), *_TIMES, *_WORK,
            ],
            longest if len(few) < len(done.rows) else "All nodes that run, the longest first.",
            "nodes",
        ),
    ]  # fmt: skip
    if len(modules) > 1:
        caption = (
            "Modules as the exporter wrote them into the file. The time of a joined node counts for the module of the "
            "first of its nodes that has FLOPs."
        )
        rows = [_row(done, group, group.name) for group in modules[: max(limit, 25)]]
        columns = [Column("name", "module"), Column("nodes", "nodes", "1"), *_TIMES, *_WORK]
        found.append(_Section("Modules", rows, columns, caption, "modules"))
    joined = Counter((_short(row.kind), _joined(row.origins)) for row in done.rows if len(row.origins) > 1)
    times: dict[tuple[str, str], float] = {}
    for row in done.rows:
        key = (_short(row.kind), _joined(row.origins))
        times[key] = times.get(key, 0.0) + row.middle
    rows = [
        {"of": key[1], "kind": key[0], "nodes": count, "seconds": times[key]}
        for key, count in sorted(joined.items(), key=lambda item: -times[item[0]])[:limit]
    ]
    if rows:
        added, folded = sum(1 for row in done.rows if not row.origins), len(done.origins.folded)
        caption = (
            f"Nodes of the file that ONNX Runtime joins into one. It left out {_nodes(folded)} of the file, which are "
            f"constant or not needed, and inserted {_nodes(added)}, for example to convert between types or layouts."
        )
        columns = [
            Column("of", "nodes of the file"), Column("kind", "run as"), Column("nodes", "times", "1"), _TIMES[0],
        ]  # fmt: skip
        found.append(_Section("Joined nodes", rows, columns, caption, "joined"))
    return found


def _nodes(count: int) -> str:
    return f"{count} node{'s' * (count != 1)}"


def _short(kind: str) -> str:
    return kind.removeprefix("com.microsoft.")


def _joined(kinds: Sequence[str]) -> str:
    """Return operators with their counts: "Conv, Relu", or "Mul ×3"."""
    counts = Counter(map(_short, kinds))
    return ", ".join(name if count == 1 else f"{name} ×{count}" for name, count in counts.items()) or "–"


def _uncertainty(done: RuntimeProfile) -> str:
    times, record = done.times, done.cost.record
    said = (
        f"With ONNX Runtime's profiler a call takes {times.slowdown:.2f} times as long. The profiler's cost of "
        f"{record * 1e6:.1f} µs was subtracted from the time of each node, and then all times were multiplied by "
        f"{times.scale:.2f}, so that they add up to the latency without the profiler."
    )
    if done.is_disturbed:
        said += (
            " This factor is far from 1, so the times are uncertain: other programs may have run, or the profiler may "
            "cost more for some nodes than for others."
        )
    return said + " The profiler counts whole microseconds, so a time of about 1 µs is a rough value."


#: NumPy's names of types that ONNX Runtime names otherwise.
_FLOATS = {"float": "float32", "double": "float64"}


def _sentences(done: RuntimeProfile) -> list[str]:
    """Return notes on the tables: operators without a formula, conversions, types, missing ceilings."""
    said = []
    latency = done.times.latency.median
    uncounted = {kind for row in done.rows for kind in row.work.uncounted} | set(done.work.uncounted)
    for kind in sorted(uncounted):
        seconds = sum(row.middle for row in done.rows if kind in row.work.uncounted or row.kind == kind)
        said.append(f"The FLOPs of {kind} are not counted. It takes {seconds / latency:.1%} of the latency.")
    spent = sum(row.middle for row in done.rows if row.kind in CONVERSIONS)
    if spent:
        said.append(f"Type conversions take {spent / latency:.1%} of the latency.")
    precisions: dict[str, float] = {}
    for row in done.rows:
        if row.work.flops and row.types:
            precisions[row.types[0]] = precisions.get(row.types[0], 0.0) + row.middle
    if precisions:
        longest = sorted(precisions.items(), key=lambda item: -item[1])
        said += [
            f"Contractions whose first operand is of type {_FLOATS.get(name, name)} take {seconds / latency:.1%} of "
            "the latency."
            for name, seconds in longest
        ]
    if any("nchwc" in row.kind for row in done.rows):
        said.append(
            "Operators named nchwc process arrays in which channels are stored in blocks; ReorderInput and "
            "ReorderOutput convert arrays to this layout and back."
        )
    if done.ceilings is None:
        threads = f"{done.settings.threads} thread{'s' * (done.settings.threads > 1)}"
        said.append(f"This report has no verdicts, because the ceilings of this machine for {threads} are not known.")
    return said


def _advised(done: RuntimeProfile, found: Sequence[Advice]) -> list[str]:
    if done.is_disturbed:
        return [
            "No advice is given, because the times of nodes are too uncertain: they add up to the latency only if they "
            f"are multiplied by {done.times.scale:.2f}. Run the profile again while no other program is running."
        ]
    said = []
    for at, each in enumerate(found, 1):
        bound = "at most" if each.at_most else "about"
        said.append(
            f"{at}. {each.what}. That part takes {_cell(each.share)} of the latency; "
            f"the file would be {bound} {_cell(each.gain)} as fast."
        )
    if not said:
        return ["This report knows of no change that would gain 2 % or more."]
    return [
        *said,
        "The intervals allow for errors of the times and of each prediction. To find what a change really gains, "
        "compare the changed file with this one: --beside other.onnx.",
    ]


def _headline(chosen: argparse.Namespace, done: RuntimeProfile) -> str:
    import onnxruntime

    how = f"{done.settings.threads} thread{'s' * (done.settings.threads > 1)}, optimization level {done.settings.level}"
    return f"{chosen.model} in ONNX Runtime {onnxruntime.__version__}: {how}, {', '.join(done.settings.providers)}"


def _text(
    chosen: argparse.Namespace,
    done: RuntimeProfile,
    facts: Sequence[Fact],
    compared: Sequence[Fact],
    found: Sequence[Advice],
) -> str:
    parts = [_headline(chosen, done), *(f"  {fact.what:<28} {fact.value}" for fact in (*facts, *compared))]
    for each in _sections(done, chosen.limit):
        shown = [column for column in each.columns if column.key not in _WIDE]
        rows = [{key: _cut(value) if key in _NAMES else value for key, value in row.items()} for row in each.rows]
        parts += ["", tables.to_text(rows, shown, caption=each.caption)]
    heading = "What would help" + ", the largest predicted gain first" * bool(found)
    advised = ["", f"{heading}:", *_advised(done, found)]
    return "\n".join([*parts, "", *_sentences(done), *advised])


#: Columns that a terminal has no room for, and those whose text is cut there.
_WIDE, _NAMES = ("types", "module", "intensity", "bytes"), ("name", "of")


def _cut(text: str) -> str:
    return text if len(text) <= 36 else f"{text[:16]}…{text[-19:]}"


def _html(
    chosen: argparse.Namespace,
    done: RuntimeProfile,
    facts: Sequence[Fact],
    compared: Sequence[Fact],
    found: Sequence[Advice],
) -> str:
    placed = [done.placed(group) for group in done.groups(lambda row: _short(row.kind))]
    own = [Fact("command", chosen.line), Fact("date", datetime.now().astimezone().isoformat(" ", "minutes"))]
    parts = [
        ("The model", facts_table([*facts, *own], _headline(chosen, done), "model")),
        *(
            [("Comparison with another file", facts_table(compared, "Both files ran interleaved.", "beside"))]
            if compared
            else []
        ),
        ("What would help", paragraphs(_advised(done, found))),
        *(
            (each.title, tables.to_html(each.rows, each.columns, caption=each.caption, key=each.key))
            for each in _sections(done, max(chosen.limit, 25))
        ),
        ("Notes", paragraphs(_sentences(done))),
        ("Roofline", roofline([each for each in placed if each is not None], done.ceilings)),
        ("The machine", machine_table(done.ceilings)),
    ]
    return standalone_page(f"Profile of {chosen.model}", "\n".join(section(title, each) for title, each in parts))


def _document(
    done: RuntimeProfile, facts: Sequence[Fact], compared: Sequence[Fact], found: Sequence[Advice]
) -> dict[str, Any]:
    """Return the whole report as one JSON object of `SCHEMA_NAME`, with times in seconds."""
    import onnxruntime

    def plain(value: Measurement) -> dict[str, Any]:
        ends = value.interval if value.has_interval else None
        interval = None if ends is None else {"low": ends.low, "high": ends.high, "confidence": ends.confidence}
        return {"median": value.median, "unit": value.unit, "interval": interval, "samples": list(value.samples)}

    rows = [
        {
            "name": row.name, "operator": row.kind, "module": row.module, "stands_for": list(row.origins),
            "seconds": row.middle, "share": row.middle / done.times.latency.median, "samples": list(row.seconds),
            "flops": row.flops, "executed": asdict(row.work), "types": list(row.types),
            "shapes": [list(shape) for shape in row.shapes], "provider": row.provider,
        }
        for row in done.rows
    ]  # fmt: skip
    gains = [
        {"what": each.what, "share": plain(each.share), "gain": plain(each.gain), "at_most": each.at_most,
         "nodes": list(each.nodes)}
        for each in found
    ]  # fmt: skip
    groups = [_row(done, group, group.name) for group in done.groups(lambda row: row.kind)]
    return {
        "schema": SCHEMA_NAME,
        "schema_version": SCHEMA_VERSION,
        "model": done.path.name,
        "onnxruntime": onnxruntime.__version__,
        "settings": asdict(done.settings),
        "inputs": {name: {"shape": list(each.shape), "dtype": str(each.dtype)} for name, each in done.inputs.items()},
        "latency": plain(done.times.latency),
        "call": plain(done.times.call),
        "profiler": {
            "slowdown": done.times.slowdown,
            "record": done.cost.record,
            "scale": done.times.scale,
            "is_disturbed": done.is_disturbed,
        },
        "work": asdict(done.work),
        "memory": {"loaded": done.held, "peak": done.grown},
        "facts": {fact.what: fact.value for fact in (*facts, *compared)},
        "operators": groups,
        "nodes": rows,
        "not_run": list(done.origins.folded),
        "advice": gains,
    }


def _beside(chosen: argparse.Namespace, settings: Settings, done: RuntimeProfile) -> list[Fact]:
    """Return how a file compares with another one: its size, its time, and the difference of their outputs."""
    other = Path(chosen.beside)

    def alike(name: str, declared: Sequence[Declared]) -> Mapping[str, Array]:
        if name == "other" and {each.name for each in declared} != set(done.inputs):
            raise UsageError(
                f"--beside {other} must take the inputs of {chosen.model}, which are {', '.join(done.inputs)}"
            )
        return done.inputs

    both = side_by_side({"other": (other, settings), "this": (done.path, settings)}, alike)
    change = compare_paired(both.times["other"], both.times["this"], _MATTERS)
    ours, theirs = both.outputs["this"], both.outputs["other"]
    if [each.shape for each in ours.values()] != [each.shape for each in theirs.values()]:
        raise UsageError(f"the outputs of --beside {other} must have the shapes of those of {chosen.model}")
    sizes_of = [file_bytes(each) for each in (done.path, other)]
    times = {name: format_measurement(each).cell_text for name, each in both.times.items()}
    against = f"compared with {{}} of {other.name}"
    return [
        Fact("file", f"{format_number(sizes_of[0], 'B').text} {against.format(format_number(sizes_of[1], 'B').text)}"),
        Fact("time", f"{times['this']} {against.format(times['other'])}: speedup {_cell(change.estimate)}, {change}"),
        *differences_of_outputs(ours, theirs, (done.path.name, other.name)),
    ]


def differences_of_outputs(
    ours: Mapping[str, Array], theirs: Mapping[str, Array], files: tuple[str, str]
) -> list[Fact]:
    """Return the largest difference of the outputs of two files, and which outputs have NaN or infinity.

    The difference is relative to the largest element of the second file's output. It leaves out elements that are not
    finite in both files; each output with such elements has a fact of its own.

    Args:
        ours, theirs: outputs of the two files, of the same shapes in the same order.
        files: the names of both.
    """
    apart, odd = list[float](), list[Fact]()
    for name, made, wanted in zip(ours, ours.values(), theirs.values(), strict=True):
        one, two = made.astype(np.float64), wanted.astype(np.float64)
        first, second = np.isfinite(one), np.isfinite(two)
        both = first & second
        error, scale = (float(np.abs(each).max(initial=0)) for each in (one[both] - two[both], two[both]))
        apart.append(error / scale if scale else math.inf if error else 0.0)
        same = (one == two) | (np.isnan(one) & np.isnan(two))
        counts = {
            f"in {files[0]}, but finite in {files[1]}": ~first & second,
            f"in {files[1]}, but finite in {files[0]}": first & ~second,
            "in both files, but differ": ~first & ~second & ~same,
            "in both files": ~first & ~second & same,
        }
        said = [
            f"{int(which.sum()):,} of {made.size:,} elements are NaN or infinite {where}"
            for where, which in counts.items()
            if which.any()
        ]
        if said:
            odd.append(Fact(f"output {name}", "; ".join(said)))
    most = max(apart, default=0.0)
    share = f"{most:.2%} of the largest element" if most < math.inf else f"an output of {files[1]} is 0 everywhere"
    return [Fact("largest difference of outputs", share), *odd]
