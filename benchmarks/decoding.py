"""Text generation with a cache: tokens per second of ours against ours without one and PyTorch eager with its own.

    python -m benchmarks.decoding [--repeats 12]

All run in one process pinned to one core, one thread, in turns, greedy, from one token, with the same weights; both
must write the same text first. PyTorch has its best of buffers taken at the start and of concatenation. Ours is fused
(`fuse_decoding`) under `accelerated`. Models beyond the book's have random weights. The target is twice PyTorch's
rate for the book's GPT in float32, and more than float32's with 8-bit weights for all. A model whose weights exceed the
caches has a bound: each token reads them once. What reading them takes is measured in the same turns, and the target is
0.85 of that rate.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table

from benchmarks.conditions import one_core
from tinytorch import models
from tinytorch.core.op import Array
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.engines import pytorch
from tinytorch.perf.kernels import probes
from tinytorch.perf.kernels.runtime.vectors import cpu_features
from tinytorch.perf.measuring import Measurement, interleave, ratio
from tinytorch.perf.memoization import enable_kv_cache, fuse_decoding, generate
from tinytorch.perf.quantization import Plan, quantize_model

PYTORCH = ("preallocated", "concatenated")
#: Rate of ours over PyTorch's that the book's GPT must reach.
TWICE = 2.0
#: Share of the rate at which the weights can be read, and bytes of weights from which on it is asked for.
OF_BOUND, BOUND_BYTES = 0.85, 256e6
#: Longest text that is also written without a cache: its cost grows with the square.
LONGEST_UNCACHED = 64


def cases() -> list[tuple[str, GPT, list[int]]]:
    """Return name, model and lengths of text."""
    book = models.trained("gpt")
    assert isinstance(book, GPT)
    return [
        ("the book's GPT, trained", book, [16]),
        ("its shape, longer", GPT(11, 96, 2, 4, 256, seed=0).eval(), [16, 64, 255]),
        ("256 wide, 4 layers", GPT(1000, 256, 4, 4, 256, seed=0).eval(), [16, 64, 255]),
        ("768 wide, 12 layers", GPT(1000, 768, 12, 12, 64, seed=0).eval(), [16]),
    ]


def _cached(model: GPT, prompt: Array, count: int) -> Callable[[], Array]:
    """Return a call that generates with a cache and the compiled kernels."""
    enable_kv_cache(model, batch_size=len(prompt))

    def run() -> Array:
        with accelerated():
            return generate(model, prompt, count)

    return run


def runners(model: GPT, count: int) -> dict[str, Callable[[], Any]]:
    """Return every way to write ``count`` tokens, ours first."""
    prompt = np.array([[3]])
    ways: dict[str, Callable[[], Any]] = {"ours": _cached(fuse_decoding(model), prompt, count)}
    quantized = quantize_model(model, plan=Plan("weight-only"))
    assert isinstance(quantized, GPT)
    ways["ours, 8-bit weights"] = _cached(fuse_decoding(quantized), prompt, count)
    for setting in PYTORCH:
        ways[f"PyTorch, {setting}"] = pytorch.decoding(setting, model, prompt, count)
    if _weight_bytes(model) > BOUND_BYTES:
        ways["reading the weights"] = _reading(model, count)
    if count <= LONGEST_UNCACHED:
        ways["ours, uncached"] = lambda: generate(model, prompt, count)
    return ways


def _weights(model: GPT) -> list[Array]:
    """Return the matrices that each token meets; of the positions' embedding it reads one row."""
    named = model.named_parameters()
    return [each.data for name, each in named if each.ndim == 2 and "position_embedding" not in name]


def _weight_bytes(model: GPT) -> int:
    return sum(weight.nbytes for weight in _weights(model))


def _reading(model: GPT, count: int) -> Callable[[], None]:
    """Return a call that reads the weights from memory as often as ``count`` tokens do, and does no more."""
    lanes = 16 if "avx512f" in cpu_features() else 8
    read, weights = probes.read(lanes), [weight.reshape(-1) for weight in _weights(model)]

    def run() -> None:
        for _ in range(count):
            for weight in weights:
                read(weight, 1)

    return run


def check_same_text(ways: dict[str, Callable[[], Any]], count: int) -> None:
    """Raise ValueError unless all float ways write the same text."""
    texts = {
        name: np.asarray(run()).reshape(-1)[-count:]
        for name, run in ways.items()
        if "8-bit" not in name and "reading" not in name
    }
    for name, text in texts.items():
        if (text != texts["ours"]).any():
            raise ValueError(f"{name} must write what ours does, but writes {text} instead of {texts['ours']}")


def _shown(times: Measurement) -> str:
    low, high = times.interval.low, times.interval.high
    return f"{times.median:.2f} [{low:.2f}, {high:.2f}]"


def _judged(gain: Measurement, least: float) -> str:
    low, high = gain.interval.low, gain.interval.high
    return "met" if low >= least else "missed" if high < least else "unclear"


def row(name: str, made: dict[str, Measurement], count: int) -> tuple[list[str], bool]:
    """Return the cells of one case, and whether its target is missed beyond doubt."""
    best = min((made[f"PyTorch, {setting}"] for setting in PYTORCH), key=lambda each: each.median)
    over, coded = ratio(best, made["ours"]), ratio(made["ours"], made["ours, 8-bit weights"])
    uncached = made.get("ours, uncached")
    twice = f"{TWICE:g}x: {_judged(over, TWICE)}; " if "book" in name or "its shape" in name else ""
    verdict = f"{twice}8 bits: {_judged(coded, 1.0)}"
    if "reading the weights" in made:
        bound = ratio(made["reading the weights"], made["ours"])
        verdict += f"; {_shown(bound)} of reading the weights, {OF_BOUND:g}: {_judged(bound, OF_BOUND)}"
    rates = [f"{count / each.median:,.0f}" for each in (made["ours"], made["ours, 8-bit weights"], best)]
    saved = _shown(ratio(uncached, made["ours"])) if uncached else "-"
    cells = [name, str(count), *rates, best.name.split(", ")[1], _shown(over), _shown(coded), saved, verdict]
    return cells, "missed" in verdict


def main(arguments: list[str]) -> int:
    """Print the table; return 1 if a target is missed beyond doubt."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=12)
    repeats: Any = parser.parse_args(arguments).repeats
    table = Table("model", "tokens", "ours (1/s)", "8-bit (1/s)", "PyTorch (1/s)", "its cache", "ours × PyTorch")
    for title in ("8-bit × float32", "cached × uncached", "target"):
        table.add_column(title)
    missed = False
    with one_core() as conditions:
        torch.set_num_threads(1)
        for name, model, lengths in cases():
            for count in lengths:
                ways = runners(model, count)
                check_same_text(ways, count)
                made = interleave(ways, repeats=repeats, at_most_seconds=12, warmup_seconds=0.2)
                cells, one_missed = row(name, made, count)
                table.add_row(*cells)
                missed |= one_missed
    console = Console(width=210)
    console.print(conditions, f"PyTorch {torch.__version__}.")
    console.print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
