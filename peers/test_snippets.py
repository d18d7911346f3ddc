"""Snippets of pages for PyTorch: each runs, and what it prints agrees with what we count."""

from __future__ import annotations

import pytest

from tinytorch import models
from tinytorch.chapters.benchmarking.in_pytorch import compare_batches
from tinytorch.chapters.profiling.in_pytorch import profile_gpt


def test_the_linear_layers_of_the_gpt_do_the_arithmetic_that_the_page_derives(
    capsys: pytest.CaptureFixture[str],
) -> None:
    profile_gpt()
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    positions = models.example("gpt", batch=64).size
    (linear,) = (line.split() for line in lines if line.startswith("addmm"))
    assert linear[1:3] == ["8", "calls"]
    assert float(linear[-2]) == pytest.approx(2 * 24 * positions * 96**2 / 1e6, abs=1)


def test_both_ways_to_ask_for_a_batch_are_timed_and_their_scatter_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    compare_batches()
    lines = capsys.readouterr().out.splitlines()
    cells = [line.split("|") for line in lines if "|" in line]
    times = {name.strip(): float(shown) for name, shown in cells[1:]}
    assert [*times] == ["one by one", "one batch"]
    assert min(times.values()) > 0
    assert [line.partition(":")[0] for line in lines[-2:]] == [*times]
