"""A warning of old ways is an error where we go them; a newer Python's word to a library's authors is none."""

from __future__ import annotations

import warnings

import pytest

from tests.own_warnings import OLD_WAYS

#: A module of each folder that tests import from.
OURS = (
    "tinytorch.core",
    "tests.test_models",
    "scripts.environment",
    "benchmarks.stream",
    "peers.test_ops",
    "measured_book",
)
OTHERS = ("sklearn.base", "numba.core.types", "testsuite", "measured_boot")


def warn_in(module: str, category: type[Warning], message: str = "this will change") -> None:
    exec(f"import warnings; warnings.warn({message!r}, category)", {"__name__": module, "category": category})


@pytest.mark.parametrize("category", OLD_WAYS)
def test_our_own_modules_may_not_go_old_ways_and_those_of_others_may(category: type[Warning]) -> None:
    for module in (*OURS, "built_pages"):
        with pytest.raises(category):
            warn_in(module, category)
    with warnings.catch_warnings(record=True) as shown:
        for module in OTHERS:
            warn_in(module, category)
    assert shown == []


def test_any_other_warning_is_an_error_but_one_of_a_division_in_a_product() -> None:
    for category in (UserWarning, RuntimeWarning, ResourceWarning, SyntaxWarning):
        with pytest.raises(category):
            warn_in("sklearn.base", category)
    with warnings.catch_warnings(record=True) as shown:
        warn_in("tinytorch.core.ops", RuntimeWarning, "divide by zero encountered in matmul")
    assert shown == []
    for message in ("divide by zero encountered in divide", "overflow encountered in matmul"):
        with pytest.raises(RuntimeWarning):
            warn_in("tinytorch.core.ops", RuntimeWarning, message)
