"""The worked problem on GPT-2, last part: what each technique could bring to a step, and three blocks that test it."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tinytorch.chapters.gpt2 import GPT2, NUMBER, call_seconds, read_seconds
from tinytorch.core.module import Module, Sequential
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import TransformerBlock
from tinytorch.perf.acceleration.techniques import forward_pass, with_kernels
from tinytorch.perf.machine import Ceilings
from tinytorch.perf.machine.time_bound import TimeBound, added, at_rate
from tinytorch.perf.measuring import Counted, Modelled, interleave, judge
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.quantization import Plan, Scheme, quantize_model
from tinytorch.perf.quantization.convert import stored_bytes

#: Blocks that are timed, a quarter of them all: more than many caches hold, and little enough for a page.
_TIMED = 3


def codes_for_floats() -> dict[str, Any]:
    """Return what codes of 8 bits gain for a token, what their bytes allow, and whether it is that at most.

    Three untrained blocks of GPT-2's shape run by compiled kernels, in several places in memory.
    """
    token = Tensor(np.random.default_rng(0).standard_normal((1, 1, GPT2.width), dtype=np.float32))
    held: dict[str, Module] = {}

    def made() -> dict[str, Callable[[], Any]]:
        held.clear()  # no more than three blocks are in memory at a time
        blocks = (TransformerBlock(GPT2.width, GPT2.heads, seed=seed) for seed in range(_TIMED))
        held["floats"] = Sequential(*blocks)
        held["codes"] = quantize_model(held["floats"], plan=Plan("weight-only", Scheme(8, per="channel")))
        return {name: with_kernels(forward_pass(one, token)) for name, one in held.items()}

    times = interleave(made, repeats=30, at_most_seconds=2.0, warmup_seconds=0.1)
    gained = compare_paired(times["floats"], times["codes"], matters=0.1)
    allowed = stored_bytes(held["floats"]) / stored_bytes(held["codes"])
    words = {"none": (None, 1.0), "kept": (1.0, allowed), "more": (allowed, None)}
    what = "bytes of three blocks' weights in float32 over those in codes of 8 bits"
    kept = judge.word_between(gained.estimate, words)
    return {"gained": gained, "allowed": Counted(allowed, "", what), "kept": kept}


def _technique(before: Modelled, after: Modelled) -> dict[str, Modelled]:
    """Return the least time of a step before and after a technique, and how many times as fast it could become."""
    gain = Modelled(before.value / after.value, "", "least time before over after", "the roofline")
    return {"before": before, "after": after, "gain": gain}


def least_steps(machine: Ceilings) -> dict[str, dict[str, Modelled]]:
    """Return what each technique could bring to a step at the end of a full text, the largest gain first, then all.

    Before, the step has a cache, float32 numbers and op by op calls; only the cache's own row begins without it.
    """
    calls, cache = call_seconds(machine), GPT2.cache_bytes(GPT2.positions)
    halved = GPT2.step_bytes - NUMBER * GPT2.halving_saves

    def step(weights: int, *more: TimeBound) -> Modelled:
        least = added((read_seconds(weights + cache, machine), *more)).measurement("least time of a step of GPT-2")
        return Modelled.by("the roofline", least)

    start = step(GPT2.step_bytes, calls)
    again = read_seconds(GPT2.step_bytes, machine).longer(at_rate(GPT2.reread_flops(GPT2.positions), machine.fp32_peak))
    without = Modelled.by("the roofline", added((again, calls)).measurement("least time of a step that reads again"))
    steps = {
        "a cache (part 6)": _technique(without, start),
        "eight-bit codes for the weights (part 3)": _technique(start, step(GPT2.coded_bytes, calls)),
        "half the numbers of the MLPs (part 4)": _technique(start, step(halved, calls)),
        "a plan, whose calls cost nothing (part 5)": _technique(start, step(GPT2.step_bytes)),
    }
    ordered = dict(sorted(steps.items(), key=lambda item: -item[1]["gain"].value))
    return ordered | {"all of them together": _technique(without, step(GPT2.halved_coded_bytes))}
