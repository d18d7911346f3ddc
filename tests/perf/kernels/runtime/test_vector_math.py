"""The polynomials against NumPy's float64, in units of the last place, over the whole range."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.special import erf, expit

from tinytorch.core.op import Array
from tinytorch.perf.kernels.runtime import vector_math
from tinytorch.perf.kernels.runtime.compiling import kernel


def applied(function: Any, dtype: Any = np.float32) -> Callable[[Array], Array]:
    def loop(x: Any, output: Any) -> None:
        for i in range(x.size):
            output[i] = function(x[i])

    compiled = kernel(loop, f"of_{function.__name__}")

    def run(x: Array) -> Array:
        output = np.empty(x.size, dtype)
        compiled(x, output)
        return output

    return run


def largest_error(found: Array, exact: Array) -> float:
    """Return the largest error in units of the last place of the exact result's float32."""
    inside = np.abs(exact) < np.finfo(np.float32).max
    last_place = np.spacing(np.abs(exact[inside]).astype(np.float32)).astype(np.float64)
    return float(np.max(np.abs(found[inside] - exact[inside]) / last_place))


GRID = np.concatenate([np.linspace(-110, 95, 100_003), np.linspace(-1, 1, 20_001), 10.0 ** np.arange(-40, 1)])


@pytest.mark.parametrize(
    ("name", "exact", "bound"),
    [
        ("exp", np.exp, 1.5),
        ("sigmoid", expit, 2.6),
        ("tanh", np.tanh, 4.0),
        ("erf", erf, 1.5),
        ("softplus", lambda x: np.logaddexp(x, 0), 4.0),
    ],
)
def test_error_in_units_of_the_last_place(name: str, exact: Callable[[Array], Array], bound: float) -> None:
    x = GRID.astype(np.float32)
    with np.errstate(over="ignore"):
        assert largest_error(applied(getattr(vector_math, name))(x), exact(x.astype(np.float64))) < bound


def test_exponential_of_negative_numbers_ends_at_the_smallest_normal_one() -> None:
    x = np.linspace(-87.3, 0, 50_001).astype(np.float32)
    run = applied(vector_math.exp_of_negative)
    assert largest_error(run(x), np.exp(x.astype(np.float64))) < 1.5
    assert not run(np.array([-87.5, -1000, -1e30, -np.inf], np.float32)).any()
    assert np.isnan(run(np.array([np.nan], np.float32))).all()


def test_special_values_are_numpys() -> None:
    x = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], np.float32)
    for name, exact in (("exp", np.exp), ("tanh", np.tanh), ("sigmoid", expit), ("erf", erf)):
        found = applied(getattr(vector_math, name))(x)
        np.testing.assert_array_equal(found, exact(x))
        np.testing.assert_array_equal(np.signbit(found[1:]), np.signbit(exact(x)[1:]))
    log_2 = np.log(2.0)
    np.testing.assert_allclose(applied(vector_math.softplus)(x), [np.nan, np.inf, 0, log_2, log_2], rtol=1e-6)


def test_keys_sort_as_numbers_do() -> None:
    x = np.array([-np.inf, -1e30, -1, -1e-40, 0, 1e-40, 1, 1e30, np.inf, np.nan], np.float32)
    made = applied(vector_math.sort_key, np.int32)(x)
    assert np.all(np.diff(made.astype(np.int64)) > 0)
    np.testing.assert_array_equal(applied(vector_math.of_sort_key)(made), x)
