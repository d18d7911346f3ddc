"""What holds for every op: gradients, ownership of memory, dtypes, and that observing changes nothing."""

import itertools

import numpy as np
import pytest

from tests.core.cases import CASES, Case
from tests.core.gradients import check_gradients
from tests.core.recording import Recorder
from tinytorch.core import ops
from tinytorch.core.dispatch import Observer, no_grad, observed_by
from tinytorch.core.op import Array, Op
from tinytorch.core.tensor import Tensor

every_case = pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])


def test_every_op_has_a_case_that_is_tested_below() -> None:
    every = {op for op in vars(ops).values() if isinstance(op, Op)}
    assert {case.op for case in CASES} == every


@every_case
def test_gradient_agrees_with_central_differences(case: Case) -> None:
    check_gradients(case, *case.tensors())


def _gradients(case: Case, tensors: list[Tensor]) -> list[Array | None]:
    output = case(*tensors)
    output.backward(np.random.default_rng(3).normal(size=output.shape))
    return [tensor.grad for tensor in tensors]


@every_case
def test_gradients_of_leaves_share_memory_with_nothing_and_later_ones_are_added(case: Case) -> None:
    """A buffer that one backward may reuse must not be one that a leaf of an earlier one holds."""
    tensors = case.tensors()
    output = case(*tensors)
    seed = np.random.default_rng(3).normal(size=output.shape)
    kept_seed, kept_output = seed.copy(), output.data.copy()
    output.backward(seed, retain_graph=True)
    np.testing.assert_array_equal(seed, kept_seed)
    np.testing.assert_array_equal(output.data, kept_output)
    arrays = [tensor.grad for tensor in tensors if tensor.grad is not None]
    others = [seed, output.data, *(tensor.data for tensor in tensors)]
    assert all(grad.flags.writeable for grad in arrays)
    assert not any(np.shares_memory(*pair) for pair in itertools.combinations(arrays, 2))
    assert not any(np.shares_memory(*pair) for pair in itertools.product(arrays, others))
    once = [grad.copy() for grad in arrays]
    output.backward(seed)
    for grad, first in zip([tensor.grad for tensor in tensors if tensor.grad is not None], once, strict=True):
        np.testing.assert_allclose(grad, 2 * first, rtol=1e-14, atol=1e-300)
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        output.backward(seed)


@every_case
def test_gradient_is_made_only_for_operands_that_need_it(case: Case) -> None:
    """For each subset of operands that require one: the others get none, these get the same as ever."""
    everything = _gradients(case, case.tensors())
    positions = case.differentiable()
    for count in range(1, len(positions) + 1):
        for wanted in itertools.combinations(positions, count):
            recorder, tensors = Recorder(), case.tensors(wanted=wanted)
            with observed_by(recorder):
                some = _gradients(case, tensors)
            expected = tuple(index in wanted for index in range(len(tensors)))
            (_, backward), (_, (_, made, _)) = recorder.calls, recorder.arrays
            assert backward.needs == tuple(each is not None for each in made) == expected
            for index, (one, all_of_them) in enumerate(zip(some, everything, strict=True)):
                if index in wanted:
                    np.testing.assert_array_equal(one, all_of_them)
                else:
                    assert one is None


@every_case
def test_without_gradients_or_under_observers_the_output_is_the_same(case: Case) -> None:
    drawn = {"generator": np.random.default_rng(5)} if case.op is ops.dropout else {}
    assert case.op.selected.forward(False, *[each.data for each in case.tensors()], **case.params, **drawn)[1] == ()
    tensors, watched = case.tensors(), case.tensors()
    recorded = case(*tensors)
    with no_grad():
        plain = case(*tensors)
    with observed_by(Observer()):
        seen = case(*watched)
        seen_gradients = _gradients(case, watched)
    assert (recorded.requires_grad, plain.requires_grad) == (True, False)
    np.testing.assert_array_equal(recorded.data, plain.data)
    np.testing.assert_array_equal(recorded.data, seen.data)
    for one, other in zip(_gradients(case, tensors), seen_gradients, strict=True):
        assert one is other is None or np.array_equal(one, other)  # type: ignore[arg-type]
    with pytest.raises(RuntimeError, match="requires"):
        plain.backward(np.ones(plain.shape))


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
