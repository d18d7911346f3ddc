"""The page on quantization: what the instructions of the CPU that built it promise to products of codes."""

from __future__ import annotations

from tinytorch.chapters.machine import multiplies_bytes, ratio_of_peaks
from tinytorch.perf.machine import Ceilings
from tinytorch.report import Page


def record_instruction(page: Page, one: Ceilings) -> None:
    """Record how this CPU multiplies bytes, and the peaks of 8-bit and of float32 arithmetic that follow."""
    page.number("int8-peak", one.int8_peak)
    page.number("fp32-peak", one.fp32_peak)
    page.number("int8-over-fp32", ratio_of_peaks(one))
    if multiplies_bytes(one):
        word = "has such an instruction"
    elif one.int8_from == "multiply":
        word = "has neither, and multiplies bytes as integers of 32 bits"
    else:
        word = "has no such instruction, and does it in steps"
    because = (
        f"the fastest way that Numba compiles for here is {one.int8_from}; it reaches {{int8-over-fp32}} float32's rate"
    )
    page.word("has-instruction", word, because=because)
