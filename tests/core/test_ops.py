"""What holds for every op: gradients, ownership of memory, dtypes, and that observing changes nothing."""

import itertools
from typing import Any

import numpy as np
import pytest

from tests.core.cases import CASES, Case
from tests.core.gradients import check_gradients, gradient_of
from tinytorch.core import ops
from tinytorch.core.dispatch import Observer, no_grad, observed_by
from tinytorch.core.op import Array, Op
from tinytorch.core.tensor import Tensor

every_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def test_every_op_has_a_case_that_is_tested_below() -> None:
    every = {getattr(ops, name) for name in ops.__all__}
    assert all(isinstance(op, Op) for op in every)
    assert {case.op for case in CASES} == every


@every_case
def test_gradient_agrees_with_central_differences(case: Case) -> None:
    check_gradients(case, *case.tensors())


def _gradients(case: Case, tensors: list[Tensor], **options: Any) -> list[Array | None]:
    output = case(*tensors)
    output.backward(np.random.default_rng(3).normal(size=output.shape), **options)
    return [tensor.grad for tensor in tensors]


@every_case
def test_gradients_of_leaves_share_memory_with_nothing(case: Case) -> None:
    tensors = case.tensors()
    output = case(*tensors)
    seed = np.random.default_rng(3).normal(size=output.shape)
    kept_seed, kept_output = seed.copy(), output.data.copy()
    output.backward(seed)
    np.testing.assert_array_equal(seed, kept_seed)
    np.testing.assert_array_equal(output.data, kept_output)
    arrays = [tensor.grad for tensor in tensors if tensor.grad is not None]
    for grad, other in itertools.combinations(arrays, 2):
        assert not np.shares_memory(grad, other)
    for grad in arrays:
        assert grad.flags.writeable
        for other in (seed, output.data, *(tensor.data for tensor in tensors)):
            assert not np.shares_memory(grad, other)


@every_case
def test_gradients_are_changed_by_no_later_backward(case: Case) -> None:
    """A buffer that one backward may reuse must not be one that a leaf of an earlier one holds."""
    tensors = case.tensors()
    output = case(*tensors)
    seed = np.random.default_rng(3).normal(size=output.shape)
    output.backward(seed, retain_graph=True)
    first = [None if tensor.grad is None else tensor.grad.copy() for tensor in tensors]
    output.backward(seed)
    for tensor, once in zip(tensors, first, strict=True):
        if once is not None:
            np.testing.assert_allclose(gradient_of(tensor), 2 * once, rtol=1e-14, atol=1e-300)
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        output.backward(seed)


@every_case
def test_gradient_is_made_only_for_operands_that_need_it(case: Case) -> None:
    """For each subset of operands that require one: the others get none, these get the same as ever."""
    everything = _gradients(case, case.tensors())
    positions = case.differentiable()
    for count in range(1, len(positions) + 1):
        for wanted in itertools.combinations(positions, count):
            seen: list[tuple[tuple[bool, ...], list[bool]]] = []

            class Watch(Observer):
                def after_op(self, call: Any, inputs: Any, outputs: Any, saved: Any, seen: list[Any] = seen) -> None:
                    if call.phase == "backward":
                        seen.append((call.needs, [made is not None for made in outputs]))

            tensors = case.tensors(wanted=wanted)
            with observed_by(Watch()):
                some = _gradients(case, tensors)
            expected = tuple(index in wanted for index in range(len(tensors)))
            assert seen == [(expected, list(expected))]
            for index, (one, all_of_them) in enumerate(zip(some, everything, strict=True)):
                if index in wanted:
                    np.testing.assert_array_equal(one, all_of_them)
                else:
                    assert one is None


@every_case
def test_without_gradients_the_output_is_the_same_and_nothing_is_saved(case: Case) -> None:
    saved = case.op.selected.forward(
        False,
        *[tensor.data for tensor in case.tensors()],
        **{**case.params, **({"generator": np.random.default_rng(5)} if case.op is ops.dropout else {})},
    )[1]
    assert saved == ()
    tensors = case.tensors()
    recorded = case(*tensors)
    with no_grad():
        plain = case(*tensors)
    assert (recorded.requires_grad, plain.requires_grad) == (True, False)
    np.testing.assert_array_equal(recorded.data, plain.data)
    with pytest.raises(RuntimeError, match="requires"):
        plain.backward(np.ones(plain.shape))


@every_case
def test_observing_changes_no_result(case: Case) -> None:
    tensors, watched = case.tensors(), case.tensors()
    plain = case(*tensors)
    gradients = _gradients(case, tensors)
    with observed_by(Observer()):
        seen = case(*watched)
        seen_gradients = _gradients(case, watched)
    np.testing.assert_array_equal(plain.data, seen.data)
    assert plain.shape == seen.shape
    for one, other in zip(gradients, seen_gradients, strict=True):
        if one is None:
            assert other is None
        else:
            np.testing.assert_array_equal(one, other)


@every_case
def test_float32_stays_float32_and_agrees_with_float64(case: Case) -> None:
    if case.op is ops.cast:
        case = Case(case.name, case.op, case.operands, {"dtype": np.dtype(np.float32)})
    exact = _gradients(case, case.tensors())
    tensors = case.tensors(np.float32)
    output = case(*tensors)
    assert output.dtype == np.float32
    assert all(tensor.dtype == np.float32 for index, tensor in enumerate(tensors) if index not in case.fixed)
    for rounded, precise in zip(_gradients(case, tensors), exact, strict=True):
        if precise is None:
            assert rounded is None
        else:
            assert rounded is not None
            assert rounded.dtype == np.float32
            scale = max(1.0, float(np.abs(precise).max(initial=0)))
            np.testing.assert_allclose(rounded, precise, rtol=0, atol=2e-5 * scale)
