"""Ladder of products: every way gives the product, and a wrong one is not timed."""

from dataclasses import replace

import numpy as np
import pytest

from tests.perf.made_ceilings import made_ceilings
from tinytorch.chapters.acceleration import ladder as chapter
from tinytorch.chapters.acceleration.ladder import Step, matmul_ladder, steps
from tinytorch.chapters.acceleration.tiles import drawn


@pytest.mark.parametrize("name", steps())
@pytest.mark.parametrize("shape", [(8, 1, 48), (48, 33, 96)])
def test_each_step_multiplies(name: str, shape: tuple[int, int, int]) -> None:
    a, b = drawn(shape[0], shape[1]), drawn(shape[1], shape[2])
    found = steps(16)[name].function(a, b)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, a.astype(np.float64) @ b, rtol=0, atol=1e-4)


def test_a_wrong_step_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chapter, "steps", lambda deep: {"wrong": Step(lambda a, b: a + b)})
    with pytest.raises(ArithmeticError, match="wrong"):
        matmul_ladder(8)
    with pytest.raises(ValueError, match="width"):
        matmul_ladder(0)


@pytest.mark.parametrize(("cache", "width"), [(1, 960), (2**25, 4800), (2**40, 5760)])
def test_the_width_is_beyond_the_last_cache_or_the_largest(cache: int, width: int) -> None:
    machine = made_ceilings()
    levels = (*machine.levels[:1], replace(machine.levels[1], capacity_measured=cache), machine.levels[2])
    assert chapter.width_beyond(replace(machine, levels=levels)) == width
