"""Expressions, passes and the exercise on fusion, against counts by hand and synthetic times."""

import math
from typing import Any

import numba
import numpy as np
import pytest

from tests.chapters.made_turns import in_turns
from tinytorch import models
from tinytorch.chapters.acceleration.tiles import PEAK
from tinytorch.chapters.whole_model import expressions, passes
from tinytorch.chapters.whole_model.exercises import check_fused_silu
from tinytorch.chapters.whole_model.expressions import EXPRESSIONS, passes_bytes, study_expressions
from tinytorch.core.layers import Linear
from tinytorch.core.module import Sequential
from tinytorch.core.op import Array
from tinytorch.core.spatial import Conv2d
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.plans import plan
from tinytorch.perf.acceleration.techniques import BASELINE, CODES, FUSED, Tried
from tinytorch.perf.kernels.runtime.vector_math import sigmoid
from tinytorch.perf.measuring import Counted, Derived, Unmeasured
from tinytorch.perf.measuring.comparison import compare_all
from tinytorch.perf.measuring.judge import Verdict


def _one_silu(x: Any) -> Any:
    return x * sigmoid(x)


_silu: Any = numba.vectorize(["float32(float32)"])(_one_silu)


def _plain(x: Array) -> Array:
    return np.asarray(x / (np.float32(1) + np.exp(-x)))


def _widened(x: Array) -> Array:
    return np.asarray(_silu(x).astype(np.float64))


def _crude(x: Array) -> Array:
    return np.asarray(_silu(x) * np.float32(1.0001))


def _in_place(x: Array) -> Array:
    return np.asarray(_silu(x, out=x))


@pytest.mark.parametrize(
    ("wrong", "why"),
    [(_plain, "bytes at a time"), (_widened, "float32"), (_crude, "errs by"), (_in_place, "write to its input")],
)
def test_what_is_not_fused_or_not_right_fails(wrong: Any, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        check_fused_silu(wrong)


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
    found = study_expressions(shape, repeats=6, at_most_seconds=0.1)
    size = 4 * math.prod(shape)
    # Nine operators, two with two arrays as operands besides x * x and (x * x) * x: 9 results and 13 operands.
    assert found["one line"].traffic.value == (9 + 13) * size
    assert found["one line"].predicted.value == 11
    assert found["in blocks"].traffic.value == found["one compiled pass"].traffic.value == 2 * size
    # While tanh runs, half of x, its operand and its result are alive; more where NumPy reuses no temporary.
    assert found["one line"].beyond.value >= 2 * size
    assert found["in place"].beyond.value == pytest.approx(0, abs=0.01 * size)
    assert 0 < found["in blocks"].beyond.value < 0.1 * size
    assert found["one pass, to an existing array"].beyond.value == 0


@pytest.mark.parametrize("way", [expressions.course_in_steps, expressions.course_in_one_line])
def test_both_ways_of_the_course_are_gelu(way: Any) -> None:
    x = np.random.default_rng(0).normal(0, 3, (30, 40)).astype(np.float32)
    found = way(x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, EXPRESSIONS["one line"](x), rtol=0, atol=3e-6)


def test_the_compiled_pass_errs_by_a_few_roundings() -> None:
    assert 0 < expressions.fused_error().value < 1e-6


#: So little that every gain is beyond doubt, but not the same twice.
HAIR = 1e-6


@pytest.mark.parametrize(("share", "limit"), [(0.75, 4), (1.1, 100), (-0.1, 1)])
def test_the_whole_gains_what_amdahl_says(share: float, limit: float) -> None:
    assert passes.whole_gain(share).value == pytest.approx(limit)
    assert passes.whole_gain(0.3, 10).value == pytest.approx(1 / 0.73)


@pytest.mark.parametrize(
    ("faster", "border"),
    [({4: 1.5, 16: 0.8, 64: 3.0, 4096: 128.0}, 64), ({4: 1.5, 4096: 128.0}, 4), ({4: 0.2, 4096: 0.9}, None)],
)
def test_numpy_pays_from_the_first_size_on_from_which_it_is_faster_for_good(
    faster: dict[int, float], border: int | None
) -> None:
    times = {
        size: in_turns({"loop": 1e-6 * gain, "vectorized": 1e-6}, noise={"vectorized": HAIR})
        for size, gain in faster.items()
    }
    found = passes.border(times)
    # The calls take a microsecond, and a turn of the loop what the last size says.
    predicted = 4096 / faster[4096]
    assert found.predicted.value == pytest.approx(predicted)
    assert (found.found.value if isinstance(found.found, Derived) else None) == border
    over = found.over_predicted
    assert isinstance(over, Unmeasured) if border is None else over.median == pytest.approx(border / predicted)


def test_an_operation_pays_what_op_by_op_takes_beyond_the_plan() -> None:
    times = in_turns({"op by op": 400e-6, "kernels alone": 90e-6, "plan": 80e-6, "call": 2e-6, PEAK: 1e-4})
    found = passes.PlanStudy(times, 10**7, 26, 18, Counted(5000, "operations", "a row of a product"))
    assert found.each.median == pytest.approx((400 - 80) / 26 / 2)
    # In that time the peak, 1e11 operations a second, does so many rows of 5,000 operations.
    assert found.border.median == pytest.approx((400e-6 - 80e-6) / 26 * 1e11 / 5000)
    # Without 25 calls of 2 µs each, 350 of 400 µs are left.
    assert found.predicted.value == pytest.approx(400 / 350)


def test_a_plan_of_the_gpt_has_fewer_steps_than_the_model_has_ops() -> None:
    model, tokens = models.gpt().eval(), np.zeros((1, 20), np.int64)
    found = passes.study_plan(model, plan(model, tokens), tokens, repeats=6)
    assert 0 < found.steps < found.calls
    # Two blocks 96 wide: to 3 x 96, to 96, to 4 x 96 and back, and once to 11 characters.
    assert found.row.value == 2 * 96 * 288


def test_the_fastest_technique_is_open_where_several_may_be() -> None:
    one, other = made_rule((10.0, 90.0), 0.5, 1.0).tried
    assert (passes.fastest(one).verdict, passes.fastest(one).word) == (Verdict.SUPPORTED, FUSED)
    assert passes.fastest(other).verdict is Verdict.OPEN
    assert {*passes.fastest(other).word.split(" or ")} == {FUSED, CODES}


def test_the_reuse_is_that_of_the_layer_in_which_the_median_operation_lies() -> None:
    layers = Sequential(Linear(100, 300, seed=0), Linear(300, 10, seed=0))
    assert passes.reuse(layers, np.ones((2, 100), np.float32)).value == pytest.approx(100 * 300 / 400)
    # A filter of 3 x 3 over 4 channels for each of 8; one for each channel alone has nothing to share.
    image = Tensor(np.ones((1, 4, 6, 6), np.float32))
    assert passes.reuse(Conv2d(4, 8, 3, seed=0), image).value == pytest.approx(36 * 8 / 44)


def made_rule(reuse: tuple[float, float], plan_first: float, plan_second: float) -> passes.Rule:
    """Return a rule of two workloads, on which 8-bit layers take a second, NumPy three, and a plan as long as given."""

    def tried(name: str, planned: float) -> Tried:
        noise = dict.fromkeys((FUSED, CODES), HAIR)
        times = in_turns({BASELINE: 3.0, FUSED: planned, CODES: 1.0}, noise=noise)
        gained = compare_all(times[BASELINE], times[FUSED], times[CODES], matters=0.05)
        return Tried(name, times, gained, {}, {})

    counted = {name: Counted(each, "1", "reuse") for name, each in zip(("one", "two"), reuse, strict=True)}
    return passes.Rule(counted, [tried("one", plan_first), tried("two", plan_second)])


def test_a_rule_draws_its_border_between_what_it_knows() -> None:
    rule = made_rule((10.0, 90.0), 0.5, 2.0)
    assert [row["fastest"] for row in rule.rows] == [FUSED, CODES]
    assert [row["gained"][CODES].median for row in rule.rows] == pytest.approx([3, 3])
    assert isinstance(rule.border, Derived)
    assert rule.border.value == pytest.approx(30)
    layer, x = Linear(100, 100, seed=0), np.ones((1, 100), np.float32)
    assert rule.choice(layer, x) == CODES
    assert rule.choice(Linear(20, 20, seed=0), x[:, :20]) == FUSED


@pytest.mark.parametrize(("reuse", "second"), [((90.0, 10.0), 2.0), ((10.0, 90.0), 0.5)])
def test_where_reuse_parts_nothing_there_is_no_border(reuse: tuple[float, float], second: float) -> None:
    rule = made_rule(reuse, 0.5, second)
    assert isinstance(rule.border, Unmeasured)
    assert isinstance(rule.choice(Linear(2, 2, seed=0), np.ones((1, 2), np.float32)), Unmeasured)


def test_passes_are_counted_operand_by_operand() -> None:
    x = np.ones(1000, np.float32)
    assert passes_bytes(lambda x: x + x, x) == 3 * 4000
    assert passes_bytes(lambda x: x + np.float32(1), x) == 2 * 4000
    assert passes_bytes(lambda x: np.tanh(x * 2, out=np.empty(1000, np.float32)), x) == 4 * 4000
