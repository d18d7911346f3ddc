"""What the page on quantization says of the instructions of CPUs that differ."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.perf.synthetic_machine import synthetic_ceilings
from tinytorch.chapters import quantization as chapter
from tinytorch.perf.kernels.int8.instructions import DOTS, Dot
from tinytorch.report import Page


@pytest.mark.parametrize("dot", DOTS, ids=lambda dot: dot.name)
def test_the_word_follows_the_instruction(dot: Dot) -> None:
    page = Page("quantization")
    chapter.record_instruction(page, replace(synthetic_ceilings(), int8_from=dot.name))
    made = {record.key: record.to_json() for record in page.records}
    word = made["has-instruction"]["word"]
    if dot.name == "multiply":
        assert word == "has neither, and multiplies bytes as integers of 32 bits"
    elif dot.name.startswith("vpmaddwd"):
        assert word == "has no such instruction, and does it in steps"
    else:
        assert word == "has such an instruction"
    assert made["int8-peak"]["value"] == pytest.approx(4 * made["fp32-peak"]["value"], rel=0.1)
