"""What an expression costs, against what can be counted by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tinytorch.perf.acceleration.expression_studies import (
    EXPRESSIONS,
    gelu_in_blocks,
    passes_bytes,
    power_cliff,
    study_expressions,
)


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


def test_passes_are_counted_operand_by_operand() -> None:
    x = np.ones(1000, np.float32)
    assert passes_bytes(lambda x: x + x, x) == 3 * 4000
    assert passes_bytes(lambda x: x + np.float32(1), x) == 2 * 4000
    assert passes_bytes(lambda x: np.tanh(x * 2, out=np.empty(1000, np.float32)), x) == 4 * 4000
    # Nine operators, two with two arrays as operands besides x * x and (x * x) * x: 9 results and 13 operands.
    assert passes_bytes(EXPRESSIONS["x*x*x"], x) == (9 + 13) * 4000


def test_temporaries_are_what_is_alive_beyond_the_result() -> None:
    shape = (500, 1000)
    found = {each.name: each for each in study_expressions(shape, repeats=6, at_most_seconds=0.1)}
    size = 4 * math.prod(shape)
    assert all(each.result_bytes == size for each in found.values())
    # While tanh runs, half of x, its operand and its result are alive; more where NumPy reuses no temporary.
    assert found["x*x*x"].temporary_bytes >= 2 * size
    assert found["in place"].temporary_bytes == pytest.approx(0, abs=0.01 * size)
    assert 0 < found["in blocks"].temporary_bytes < 0.1 * size
    assert all(each.page_faults >= 0 and each.seconds.unit == "s" for each in found.values())


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="size must be at least 1"):
        power_cliff(0)
    with pytest.raises(ValueError, match="block must be at least 1"):
        gelu_in_blocks(np.ones(3, np.float32), 0)


def test_the_cliff_has_four_sides() -> None:
    assert len(power_cliff(100, repeats=6)) == 4
