"""Races with other engines, and what they come to where there are none."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest

from tests.chapters.made_turns import in_turns
from tests.perf.made_ceilings import PEAK, made_ceilings
from tinytorch.chapters.whole_model import beside as chapter
from tinytorch.chapters.whole_model.beside import EAGER, Beside, race_engines
from tinytorch.perf.engines.protocol import Phase
from tinytorch.perf.engines.turns import Raced
from tinytorch.perf.measuring import Unmeasured

#: Operations of a product of 512 rows, 768 to 3,072.
FLOPS = 2 * 512 * 768 * 3072
CASES: dict[str, tuple[str, Phase]] = {"one": ("gpt-1", "forward"), "step": ("gpt-64", "step")}
SECONDS = {
    "product-512": {"tinytorch": 4 * FLOPS / PEAK, EAGER: 2 * FLOPS / PEAK},
    "gpt-1": {"tinytorch": 2.0, "tinytorch fused": 0.5, EAGER: 1.0, "ONNX Runtime": 0.75},
    "gpt-64": {"tinytorch": 2.0, EAGER: 3.0},
}
PASSES = in_turns({"loops": 60.0, "NumPy": 1.0})


def test_ours_is_the_fastest_of_ours_and_theirs_of_theirs(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str, int]] = []

    @contextmanager
    def started(names: Sequence[str], cores: int) -> Iterator[list[str]]:
        yield [f"{name} on {cores}" for name in names]

    def run(started: list[str], of: str, phase: Phase, *, cores: int, **plan: Any) -> Raced:
        assert started == [f"{name} on 1" for name in ("tinytorch", EAGER)]
        asked.append((of, phase, cores))
        return Raced(of, phase, cores, in_turns(SECONDS[of]), {})

    lacks = Unmeasured("JAX is not here")
    monkeypatch.setattr(chapter, "missing", lambda name: lacks if name == "JAX" else None)
    names = ("tinytorch", EAGER, "PyTorch eager, cache concatenated")
    monkeypatch.setattr(chapter, "available", lambda: dict.fromkeys(names, "1"))
    monkeypatch.setattr(chapter, "runners", started)
    monkeypatch.setattr(chapter, "race", run)
    found = race_engines(CASES, PASSES, made_ceilings())
    assert asked == [("product-512", "forward", 1), *((of, phase, 1) for of, phase in CASES.values())]
    assert isinstance(found, Beside)
    one, step = found.sides["one"], found.sides["step"]
    assert (one.way, one.over_ours.median, step.way, step.over_ours.median) == ("fused", 1.5, "NumPy", 1.5)
    assert (step.others["ONNX Runtime"], step.others["JAX"]) == (None, lacks)
    assert [found.numpy_over_eager.median, found.loops_over_eager.median] == pytest.approx([2, 120])
    assert [found.eager_product.median, found.numpy_product.median] == pytest.approx([0.5, 0.25])


def test_without_pytorch_nothing_races(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chapter, "missing", lambda name: Unmeasured(f"{name} is not here"))
    assert race_engines(CASES, PASSES, made_ceilings()) == Unmeasured("PyTorch eager is not here")
