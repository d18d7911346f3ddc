"""The page on the machine: its peaks and levels as tables, and the claims that it tests where it can test them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tinytorch.perf.kernels.int8.instructions import DOTS
from tinytorch.perf.machine.store import Ceilings
from tinytorch.perf.measuring import Measurement, interleave, ratio
from tinytorch.report import Column, Page, verdict_between, verdict_of_all

ONE_CORE = "the process that built this page could use one core only: build it where there are two"
NO_CACHES = "whether the cache sizes that the system reports are yours cannot be asked of one that reports none"
NO_DOT_PRODUCT = (
    "whether INT8's peak is four times FP32's is said of an instruction that multiplies bytes and adds their products, "
    "which this CPU lacks"
)
#: Shares of the reported size, and of the ideal of all cores, that support the claims on them.
_MOST_OF_A_CACHE, _NEARLY_IDEAL = 0.75, 0.9


def record_peaks(page: Page, one: Ceilings, several: Ceilings | None) -> None:
    """Show the most arithmetic that one thread did, and all cores together; ``several`` is None where there is one."""
    rows = [
        {"what": "FP32 arithmetic", "one": one.fp32_peak, "all": several and several.fp32_peak},
        {"what": "FP32 product, 2048 wide", "one": one.sgemm, "all": several and several.sgemm},
        {
            "what": f"INT8 arithmetic, by {one.int8_from}",
            "one": one.int8_peak.scaled(1, "FLOP/s"),
            "all": several and several.int8_peak.scaled(1, "FLOP/s"),
        },
    ]
    columns = [Column("what", "Operations a second"), Column("one", "One thread"), Column("all", "All cores")]
    page.table(
        "peaks",
        rows,
        columns if several else columns[:2],
        caption="The most arithmetic that this machine was seen to do; a multiply-add counts as two operations.",
    )


def record_levels(page: Page, one: Ceilings) -> None:
    """Show the levels of the memory, one thread."""
    columns = [
        Column("name", "Level"),
        Column("capacity", "Holds, as measured", "B"),
        Column("reported", "As reported", "B"),
        Column("read", "Read"),
        Column("copy", "Copy"),
        Column("triad", "Triad"),
        Column("latency", "Latency"),
    ]
    rows = [
        {
            "name": level.name,
            "capacity": level.capacity_measured,
            "reported": level.capacity_reported,
            "read": level.read,
            "copy": level.copy,
            "triad": level.triad,
            "latency": level.latency,
        }
        for level in one.levels
    ]
    page.table(
        "levels",
        rows,
        columns,
        caption="The levels of the memory, one thread: found from the curves below, beside what the system reports.",
    )


def record_caches(page: Page, one: Ceilings) -> None:
    """Record how much of each cache's reported size was measured, and the claim on it."""
    shares = {
        level.name: level.capacity_measured / level.capacity_reported
        for level in one.levels
        if level.capacity_reported and level.capacity_measured
    }
    if not shares:
        page.absent("caches-are-yours", reason=NO_CACHES)
        return
    for name, share in shares.items():
        what = f"capacity of {name} as measured, of the reported one"
        page.number(f"capacity-{name.lower()}", share, unit="%", what=what)
    measured = ", ".join(f"{name}: {{capacity-{name.lower()}}}" for name in shares)
    page.claim(
        "caches-are-yours",
        statement="The cache sizes that the system reports are yours.",
        source="lscpu and /sys/devices/system/cache, taken at their word",
        verdict="supported" if all(share >= _MOST_OF_A_CACHE for share in shares.values()) else "refuted",
        evidence=f"As measured they hold {measured} of what is reported; three quarters of each would support it.",
    )


def record_int8(page: Page, one: Ceilings) -> None:
    """Record the peak of 8-bit arithmetic over that of floats; the claim on it is one on dot-product instructions."""
    page.number("int8-over-fp32", ratio_of_peaks(one))
    if not multiplies_bytes(one):
        page.absent("int8-four-times", reason=NO_DOT_PRODUCT)
        return
    page.claim(
        "int8-four-times",
        statement="The peak of INT8 arithmetic is four times that of FP32.",
        source="A. Rodriguez et al., Lower Numerical Precision Deep Learning Inference and Training, Intel 2018",
        source_url="https://software.intel.com/content/www/us/en/develop/articles/lower-numerical-precision-deep-learning-inference-and-training.html",
        verdict=verdict_between(ratio_of_peaks(one), 3.6, 4.4),
        evidence="On this processor it is {int8-over-fp32}; within a tenth of four would support it.",
    )


def multiplies_bytes(one: Ceilings) -> bool:
    """Return whether the peak of 8-bit arithmetic is that of an instruction that multiplies bytes and adds products."""
    return any(dot.name == one.int8_from and dot.is_dot_product for dot in DOTS)


def ratio_of_peaks(one: Ceilings) -> Measurement:
    """Return the peak of 8-bit arithmetic over the peak of float32, as a number without unit."""
    return one.int8_peak.scaled(1 / one.fp32_peak.median, "", "peak of 8-bit products over that of float32")


def record_cores(page: Page, one: Ceilings, several: Ceilings | None) -> None:
    """Record what all cores do over one, and the claim on it; on one core nothing is said of a second one."""
    if several is None:
        page.absent("cores-arithmetic", "cores-bandwidth", "cores", reason=ONE_CORE)
        page.absent("second-core", reason=f"whether a second core doubles speed, as {ONE_CORE}")
        return
    arithmetic = several.fp32_peak.scaled(1 / one.fp32_peak.median, "", "all cores over one, FP32 peak")
    read = several.levels[-1].read.scaled(1 / one.levels[-1].read.median, "", "all cores over one, memory read")
    page.number("cores-arithmetic", arithmetic)
    page.number("cores-bandwidth", read)
    page.number("cores", several.threads, unit="cores", what="cores that this process may use")
    needed = _NEARLY_IDEAL * several.threads
    page.claim(
        "second-core",
        statement="The second core doubles speed: twice the cores are twice as fast.",
        source="the ideal that G. M. Amdahl's law starts from, AFIPS 1967",
        source_url="https://doi.org/10.1145/1465482.1465560",
        verdict=verdict_of_all(verdict_between(each, low=needed) for each in (arithmetic, read)),
        evidence="With {cores} arithmetic became {cores-arithmetic} faster and reading memory {cores-bandwidth}; "
        "nine tenths of the ideal in both would support it.",
    )


def same_against_same(function: Callable[[], Any], repeats: int = 60, seed: int = 0) -> Measurement:
    """Return the ratios of a function's time to its own, from pairs of neighbouring samples.

    Nothing differs between the two, so every departure from 1 is the noise that any comparison here meets.
    """
    both = interleave({"once": function, "again": function}, repeats=repeats, seed=seed)
    return ratio(both["once"], both["again"], "the same code against itself")
