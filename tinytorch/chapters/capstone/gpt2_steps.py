"""The worked problem on GPT-2, last part: what each technique could bring to a step, and three blocks that test it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np

from tinytorch.chapters.gpt2 import GPT2, NUMBER, call_seconds, read_seconds
from tinytorch.core.module import Sequential
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import TransformerBlock
from tinytorch.perf.acceleration.techniques import forward_pass
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.time_bound import TimeBound, added, at_rate
from tinytorch.perf.measuring import Measurement, Modelled, interleave, quotient
from tinytorch.perf.roofline.bounds import slope_at
from tinytorch.report import Column, Page

COLUMNS = (
    Column("technique", "Technique"),
    Column("before", "Least time before", modelled=True),
    Column("after", "Least time after", modelled=True),
    Column("gain", "At most", "", modelled=True),
)
#: Name of the last row, in which all techniques are taken together.
TOGETHER: Final = "all of them together"
#: Blocks that are timed, a quarter of them all: more than many caches hold, and little enough for a page.
_TIMED = 3


def quarter_seconds() -> Measurement:
    """Return the seconds of three blocks of GPT-2's shape for one token, by NumPy, in several places of memory.

    Untrained weights take as long as trained ones. No more than three blocks are in memory at a time.
    """
    token = Tensor(np.random.default_rng(0).standard_normal((1, 1, GPT2.width), dtype=np.float32))
    held: list[Callable[[], Any]] = []

    def made() -> dict[str, Callable[[], Any]]:
        held.clear()
        blocks = (TransformerBlock(GPT2.width, GPT2.heads, seed=seed) for seed in range(_TIMED))
        held.append(forward_pass(Sequential(*blocks), token))
        return {"quarter": lambda: held[0]()}

    return interleave(made, repeats=30, at_most_seconds=1.5, warmup_seconds=0.1)["quarter"]


def least_steps(machine: Ceilings) -> dict[str, tuple[Measurement, Measurement]]:
    """Return the least time of a step at the end of a full text before and after each technique, by its name.

    Before, the step has a cache, float32 numbers and op by op calls; only the cache's own row begins without it. The
    technique with the largest gain at the medians comes first, and `TOGETHER` last.
    """
    calls, cache = call_seconds(machine), GPT2.cache_bytes(GPT2.positions)
    halved = GPT2.step_bytes - NUMBER * GPT2.halving_saves

    def step(weights: int, *more: TimeBound) -> Measurement:
        return added((read_seconds(weights + cache, machine), *more)).statistic("least time of a step of GPT-2")

    start = step(GPT2.step_bytes, calls)
    again = read_seconds(GPT2.step_bytes, machine).longer(at_rate(GPT2.reread_flops(GPT2.positions), machine.fp32_peak))
    without = added((again, calls)).statistic("least time of a step of GPT-2 that reads the text again")
    steps = {
        "a cache (part 6)": (without, start),
        "eight-bit codes for the weights (part 3)": (start, step(GPT2.coded_bytes, calls)),
        "half the numbers of the MLPs (part 4)": (start, step(halved, calls)),
        "a plan, whose calls cost nothing (part 5)": (start, step(GPT2.step_bytes)),
    }
    ordered = dict(sorted(steps.items(), key=lambda item: -gain(*item[1])))
    return ordered | {TOGETHER: (without, step(GPT2.halved_coded_bytes))}


def gain(before: Measurement, after: Measurement) -> float:
    """Return how many times as fast a step could become."""
    return before.median / after.median


def record_steps(page: Page, quarter: Measurement, machine: Ceilings) -> None:
    """Record the table of least times, and how many times their own least time three blocks take.

    Args:
        page: that records.
        quarter: `quarter_seconds`.
        machine: ceilings of one thread.
    """
    nbytes, fold = _TIMED * NUMBER * GPT2.block_parameters, GPT2.layers // _TIMED
    least = read_seconds(nbytes, machine).statistic("weights of three blocks of GPT-2, read once")
    what = "three blocks of GPT-2 for one token, over their least time"
    page.number("gpt2-quarter-over", quotient(quarter, least, what))
    page.number("gpt2-body", quarter.scaled(fold, name="three blocks of GPT-2 for one token, times four"))
    page.number(
        "gpt2-body-least",
        Modelled.by("its bytes, at the bandwidth", least.scaled(fold, name="their weights, read once, times four")),
    )
    for key, size, blocks in (("quarter", nbytes, "three blocks"), ("body", fold * nbytes, "all blocks")):
        page.number(f"gpt2-{key}-bytes", size, unit="B", what=f"weights of {blocks} of GPT-2, float32")
        slope = slope_at(size, machine)
        page.word(
            f"gpt2-{key}-from",
            slope.outer if slope.inner == slope.outer else f"{slope.inner} and {slope.outer}",
            because=f"{{gpt2-{key}-bytes}} stood against the capacities that the ladder found",
        )
    steps = least_steps(machine)
    page.table(
        "gpt2-steps",
        [
            {
                "technique": name,
                "before": Modelled.by("the roofline", before),
                "after": Modelled.by("the roofline", after),
                "gain": Modelled(gain(before, after), "", "least time before over after", "the roofline"),
            }
            for name, (before, after) in steps.items()
        ],
        COLUMNS,
        caption="A step of GPT-2 that writes the last of 1,024 tokens, on one core: its least time before and after "
        "each technique alone, the largest gain first.",
    )
    page.number("gpt2-last", Modelled.by("the roofline", steps[TOGETHER][1]))
