"""What an expression costs, against what can be counted by hand."""

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns
from tests.perf.made_ceilings import made_ceilings
from tinytorch.chapters.whole_model import expressions as chapter
from tinytorch.chapters.whole_model.expressions import EXPRESSIONS, study_expressions
from tinytorch.perf.measuring import Modelled, Unmeasured


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("shape", [(0,), (3, 5), (40_000,)])
def test_each_way_to_write_it_is_gelu(name: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(0, 3, shape).astype(np.float32)
    before, wide = x.copy(), x.astype(np.float64)
    exact = 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    found = EXPRESSIONS[name](x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact, rtol=0, atol=3e-6)
    assert np.array_equal(x, before)


def test_a_way_costs_its_traffic_and_what_it_holds_beyond_its_result() -> None:
    shape = (500, 1000)
    found = study_expressions(made_ceilings(), shape, repeats=6, at_most_seconds=0.1)
    size = 4 * math.prod(shape)
    assert all(each.result.value == size for each in found.values())
    # Nine operators, two with two arrays as operands besides x * x and (x * x) * x: 9 results and 13 operands.
    assert found["one line"].traffic.value == (9 + 13) * size
    assert found["in blocks"].traffic.value == found["one compiled pass"].traffic.value == 2 * size
    # The made memory copies 10 GB a second.
    line = found["one line"]
    assert line.predicted.value == pytest.approx(22 * size / 10e9)
    assert line.over_predicted.median == pytest.approx(line.seconds.median / line.predicted.value, rel=0.01)
    # While tanh runs, half of x, its operand and its result are alive; more where NumPy reuses no temporary.
    assert found["one line"].beyond.value >= 2 * size
    assert found["in place"].beyond.value == pytest.approx(0, abs=0.01 * size)
    assert 0 < found["in blocks"].beyond.value < 0.1 * size
    assert found["one pass, to an existing array"].beyond.value == 0


@pytest.mark.parametrize(("faults", "price"), [(1000, 0.002), (0, None)])
def test_the_faults_of_the_line_cost_what_those_of_the_pass_do(faults: int, price: float | None) -> None:
    """Fresh pages make the pass two seconds longer; the line has 2,000 faults more than the steps in place."""
    times = in_turns({"fresh": 5.0, "existing": 3.0})
    costs: Any = {
        "one line": SimpleNamespace(faults=2300),
        "in place": SimpleNamespace(faults=300),
        "one compiled pass": SimpleNamespace(faults=faults, seconds=times["fresh"]),
        "one pass, to an existing array": SimpleNamespace(faults=0, seconds=times["existing"]),
    }
    done = chapter.Faults(costs)
    assert done.more.value == 2000
    if price is None:
        assert isinstance(done.price, Unmeasured)
        assert isinstance(done.predicted, Unmeasured)
    else:
        assert isinstance(done.predicted, Modelled)
        assert (done.price.median, done.predicted.value) == pytest.approx((price, 2000 * price))


def test_the_compiled_pass_is_held_against_the_better_of_numpys_ways(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = dict(zip((*EXPRESSIONS, "one pass, to an existing array"), (12.0, 10.0, 4.4, 5.0, 4.0, 3.0), strict=True))
    monkeypatch.setattr(chapter, "interleave", lambda *_, **__: in_turns(seconds))
    assert chapter.gain_over_numpy(study_expressions(made_ceilings(), (10, 10))).median == pytest.approx(1.1)


def test_the_cliff_has_four_sides() -> None:
    assert {*chapter.power_cliff(100, repeats=6)} == {
        f"{how}, {sign}" for how in ("x**3", "x*x*x") for sign in ("positive", "negative")
    }


def test_answers_are_arithmetic() -> None:
    assert chapter.traffic_of(5, 3, 1_000_000).value == 60_000_000
    assert chapter.saving(20, 12).value == 0.4
    assert 0 < chapter.fused_error().value < 1e-6
