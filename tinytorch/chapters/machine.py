"""The page on the machine: what it is, its peaks and levels, and what repeats of a measurement differ by."""

from typing import Any

import numpy as np

from tinytorch.perf.host.pinned_threads import Team
from tinytorch.perf.kernels.int8.instructions import DOTS
from tinytorch.perf.kernels.probes import LINE_BYTES
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.bandwidth_sweep import make_arenas, stream_probes
from tinytorch.perf.machine.levels import STREAMS, Level
from tinytorch.perf.machine.peaks import multiply_add_probe
from tinytorch.perf.machine.probing import interleaved_rates
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured, of_rounds, quotient
from tinytorch.perf.measuring.between_run_variance import known_variance
from tinytorch.perf.measuring.conditions import ComputeProbe, MemoryProbe
from tinytorch.perf.roofline.bounds import reported
from tinytorch.report import points

#: A row of a table or chart, by what it holds.
Row = dict[str, Any]
ONE_CORE = Unmeasured("the process that built this page could use one core only: build it where there are two")
#: Bits of a vector register by its kind in `Ceilings.evidence`; SVE's differ from CPU to CPU.
_REGISTER_BITS = {"zmm": 512, "ymm": 256, "xmm": 128, "v": 128}


def units(one: Ceilings) -> tuple[Counted, Counted, Modelled, Modelled, Measurement]:
    """Return what the fastest loop of multiply-adds says of the units of this CPU; a BLAS may use others.

    That is the numbers in a register, the registers in flight, what one unit reaches that begins an operation in each
    cycle, and two of them, and how many were kept busy.
    """
    loop = max((rate for _, rate in one.multiply_add), key=lambda rate: rate.median)
    probe = loop.conditions.instrument
    if not isinstance(probe, ComputeProbe):
        raise ValueError(f"{loop.name!r} must be of a loop of arithmetic, to have vectors")
    # Registers are those of the assembly: where these are narrower than the loop's vectors, a vector is several.
    written = probe.vector_bits
    kinds = {instruction.split()[1] for instruction in one.evidence["multiply-add"]}
    bits = min(written, max((_REGISTER_BITS.get(kind, written) for kind in kinds), default=written))
    sums = (probe.chains or 1) * written // bits
    rate, of_two = (
        one.clock.scaled(bits // 16 * count, "FLOP/s", f"multiply-adds of {count} units, a register of each in a cycle")
        for count in (1, 2)
    )
    return (
        Counted(bits // 32, "numbers", "float32 of a register, by the assembly of the loop"),
        Counted(sums, "sums", "registers that the loop of multiply-adds works on at once"),
        Modelled.by("multiply-adds of a register in each cycle", rate),
        Modelled.by("multiply-adds of a register in each cycle", of_two),
        quotient(loop, rate, "units that the multiply-adds kept busy", "units"),
    )


def on_their_way(memory: Level) -> tuple[Modelled, Modelled, Modelled]:
    """Return the rate of a line in each latency of memory, and the lines and bytes on their way while it was read."""
    waited = memory.latency.per(LINE_BYTES, "B/s", "one line in each latency of memory")
    lines = quotient(memory.read, waited, "lines on their way from memory, by Little's law", "lines")
    law, in_bytes = "Little's law", lines.scaled(LINE_BYTES, "B", "bytes on their way from memory, by Little's law")
    return Modelled.by("one line in each latency", waited), Modelled.by(law, lines), Modelled.by(law, in_bytes)


def peaks(one: Ceilings) -> list[Row]:
    """Return the most operations a second of each kind."""
    rates = {
        "FP32 arithmetic": one.fp32_peak,
        "FP32 product, 2048 wide": one.sgemm,
        f"INT8 arithmetic, by {one.int8_from}": one.int8_peak,
    }
    return [{"what": what, "rate": rate.scaled(1, "OP/s")} for what, rate in rates.items()]


def levels(one: Ceilings) -> list[Row]:
    """Return each level of the memory, with the wait for a load, its bandwidths, and its size."""
    return [
        {"name": level.name, "latency": level.latency, "reported": reported(level)}
        | {stream: getattr(level, stream) for stream in STREAMS}
        for level in one.levels
    ]


def ladder(one: Ceilings) -> list[Row]:
    """Return what one thread reaches over the working set in KiB, as `points` of a chart."""
    reached = {name: {point.working_set / 1024: point.reached for point in curve} for name, curve in one.curves.items()}
    streams = {str(stream): reached[stream] for stream in STREAMS}
    return points({"bandwidth": streams, "latency": {"dependent load": reached["latency"]}})


def multiplies_bytes(one: Ceilings) -> bool:
    """Return whether the peak of 8-bit arithmetic is that of an instruction that multiplies bytes and adds products."""
    return any(dot.name == one.int8_from and dot.is_dot_product for dot in DOTS)


def ratio_of_peaks(one: Ceilings) -> Measurement:
    """Return the peak of 8-bit arithmetic over the peak of float32, as a number without unit."""
    what = "peak of 8-bit products over that of float32"
    if one.peak_in_turns:
        return of_rounds(what, np.divide, one.int8_peak, one.fp32_peak)
    return quotient(one.int8_peak, one.fp32_peak, what)


def gain_of_instruction(one: Ceilings) -> Measurement | Unmeasured:
    """Return `ratio_of_peaks` where it is that of an instruction which multiplies bytes and adds their products."""
    if multiplies_bytes(one):
        return ratio_of_peaks(one)
    return Unmeasured(
        "this CPU has no instruction that multiplies bytes and adds their products, of which the claim is made"
    )


def all_cores(one: Ceilings, cores: int) -> dict[str, Measurement] | Unmeasured:
    """Return the "arithmetic" of all cores, and their "read" of memory, over those of one core, sampled in turns."""
    if cores == 1:
        return ONE_CORE
    (flops, loop), read = max(one.multiply_add, key=lambda rate: rate[1].median), one.levels[-1].read
    fast, far = loop.conditions.instrument, read.conditions.instrument
    if not isinstance(fast, ComputeProbe) or not isinstance(far, MemoryProbe):
        raise ValueError("ceilings must say by which loops they were measured")
    lanes, size = fast.vector_bits // 32, far.working_set_bytes
    with Team(1) as single, Team(cores) as every:
        probes = {
            (what, team.threads): probe
            for team in (single, every)
            for what, probe in (
                ("arithmetic", multiply_add_probe(team, lanes, flops // 2)),
                ("read", stream_probes(team, make_arenas(team, [size]), lanes, [size])["read", size]),
            )
        }
        rates = interleaved_rates(every, probes, lambda _: None)
    return {
        what: of_rounds(f"all cores over one, {what}", np.divide, rates[what, cores], rates[what, 1])
        for what in ("arithmetic", "read")
    }


def repeats() -> tuple[Modelled, ...]:
    """Return by how much the time of a call, and the ratio of two, vary from one process and moment to the next.

    Raises:
        ValueError: if nothing is known: the page itself looks when it begins.
    """
    known = known_variance()
    if known is None:
        raise ValueError("repeats must be known: make the Page first, which times them in fresh processes")
    of = f"from {known.processes} processes here and what other machines showed"
    varied = {"the time of a call": known.alone, "the ratio of two calls taken in turns": known.interleaved}
    model = "Student's quantile of what a few processes differ by"
    return tuple(
        Modelled(spread, "%", f"standard deviation between repeats of {what}, {of}", model)
        for what, spread in varied.items()
    )
