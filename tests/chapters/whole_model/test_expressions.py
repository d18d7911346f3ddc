"""What an expression costs, against what can be counted by hand."""

import math

import numpy as np
import pytest

from tinytorch.chapters.whole_model import expressions as chapter
from tinytorch.chapters.whole_model.expressions import EXPRESSIONS, study_expressions


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


def test_answers_are_arithmetic() -> None:
    assert chapter.traffic_of(5, 3, 1_000_000).value == 60_000_000
    assert chapter.saving(20, 12).value == 0.4
    assert 0 < chapter.fused_error().value < 1e-6
