"""A warning of old ways is an error where we go them; a newer Python's word to a library's authors is none."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest

from tests.own_warnings import OLD_WAYS

ROOT = Path(__file__).resolve().parents[1]
OURS = [
    "tinytorch.core.tensor",
    "tests.test_models",
    "scripts.environment",
    "benchmarks.products",
    "peers.test_ops",
    "measured_book.records.store",
]
BARE = [path.stem for path in (ROOT / "book" / "_checks").glob("*.py")]


def warn_in(module: str, category: type[Warning], message: str = "this will change") -> None:
    exec(f"import warnings; warnings.warn({message!r}, category)", {"__name__": module, "category": category})


@pytest.mark.parametrize("category", OLD_WAYS)
@pytest.mark.parametrize("module", [*OURS, *BARE])
def test_our_own_modules_may_not_go_old_ways(module: str, category: type[Warning]) -> None:
    with pytest.raises(category, match="this will change"):
        warn_in(module, category)


@pytest.mark.parametrize("category", OLD_WAYS)
@pytest.mark.parametrize("module", ["sklearn.base", "numba.core.types", "asyncio.events", "testsuite", "measured_boot"])
def test_modules_of_others_may(module: str, category: type[Warning]) -> None:
    with warnings.catch_warnings(record=True) as shown:
        warn_in(module, category)
    assert shown == []


@pytest.mark.parametrize("category", [UserWarning, RuntimeWarning, ResourceWarning, SyntaxWarning])
def test_any_other_warning_is_an_error_wherever_it_comes_from(category: type[Warning]) -> None:
    with pytest.raises(category):
        warn_in("sklearn.base", category)


def test_a_product_that_warns_of_a_division_warns_falsely() -> None:
    with warnings.catch_warnings(record=True) as shown:
        warn_in("tinytorch.core.ops", RuntimeWarning, "divide by zero encountered in matmul")
    assert shown == []
    for message in ("divide by zero encountered in divide", "overflow encountered in matmul"):
        with pytest.raises(RuntimeWarning):
            warn_in("tinytorch.core.ops", RuntimeWarning, message)
