"""What holds for every op: gradients, ownership of memory, dtypes, observers that change nothing, and work formulas."""

import itertools
from typing import Any

import numpy as np
import pytest

from tests.core.cases import CASES, Case, Recorder, check_gradients, normal
from tinytorch.core import ops
from tinytorch.core.dispatch import Observer, no_grad, observed_by
from tinytorch.core.op import Array, Call, Op, Work
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


CONTRACTIONS = (ops.matmul, ops.linear, ops.conv2d, ops.attention, ops.self_attention)


def calls_of(case: Case, wanted: tuple[int, ...] | None = None) -> list[Call]:
    """Return the events of one forward and, with ``wanted`` operands, of its backward."""
    recorder = Recorder()
    tensors = case.tensors(wanted=wanted or ())
    with observed_by(recorder):
        output = case(*tensors)
        if wanted:
            output.backward(np.ones(output.shape))
    return recorder.calls


class _Products:
    """Counts multiply-accumulates of the matrix products that NumPy runs; a product with a vector is a sum of rows."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.macs = 0
        for name in ("matmul", "dot"):
            monkeypatch.setattr(np, name, self._counting(getattr(np, name)))

    def _counting(self, product: Any) -> Any:
        def counted(a: Any, b: Any, **options: Any) -> Any:
            made = product(a, b, **options)
            if np.ndim(a) > 1 and np.ndim(b) > 1:
                self.macs += np.size(made) * np.shape(a)[-1]
            return made

        return counted


@pytest.mark.parametrize(
    "case",
    [case for case in CASES if case.op in CONTRACTIONS and all(np.ndim(o) > 1 for o in case.operands[:2])],
    ids=lambda case: case.name,
)
def test_formulas_count_the_products_that_really_run(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """In both phases, for each subset of operands that need a gradient: none is made that is not needed."""
    positions = case.differentiable()
    for count in range(1, len(positions) + 1):
        for wanted in itertools.combinations(positions, count):
            declared = sum(call.work.macs for call in calls_of(case, wanted))
            with monkeypatch.context() as patch:
                products = _Products(patch)
                output = case(*case.tensors(wanted=wanted))
                output.backward(np.ones(output.shape))
            assert products.macs == declared, wanted


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_every_op_declares_its_work_and_traffic(case: Case) -> None:
    for call in calls_of(case, tuple(case.differentiable())):
        assert call.work.macs >= 0
        assert call.work.elementwise >= 0
        assert call.traffic >= 0
        assert (call.work.macs > 0) == (
            call.op in CONTRACTIONS and all(np.size(o) for o in case.operands) and call.output.size > 0
        )


def test_elementwise_work_is_one_operation_an_element_of_the_result() -> None:
    x, row = Tensor(normal(3, 4), requires_grad=True), Tensor(normal(4), requires_grad=True)
    recorder = Recorder()
    with observed_by(recorder):
        (x * row).backward(np.ones((3, 4)))
        (x + row).backward(np.ones((3, 4)))
        x.sum(axis=1).backward(np.ones(3))
        x.mean()
    multiply, multiply_back, add, add_back, summed, summed_back, mean = (call.work for call in recorder.calls)
    assert (multiply, multiply_back) == (Work(0, 12), Work(0, 24))
    assert (add, add_back) == (Work(0, 12), Work(0, 0))
    assert (summed, summed_back) == (Work(0, 12), Work(0, 0))
    assert mean == Work(0, 13)


def test_traffic_reads_each_operand_once_and_writes_each_result_once() -> None:
    x, w = Tensor(normal(5, 3), requires_grad=True), Tensor(normal(3, 4), requires_grad=True)
    frozen = Tensor(normal(5, 3))
    recorder = Recorder()
    with observed_by(recorder):
        (x @ w).backward(np.ones((5, 4)))
        (frozen @ w).backward(np.ones((5, 4)))
        (x + 1.0).backward(np.ones((5, 3)))
        x.reshape(15)
        _ = x[:2]
        Tensor(normal(4)) @ w.T
    both, both_back, _, one_back, add, add_back, view, picked, _, _ = (call.traffic for call in recorder.calls)
    assert recorder.calls[-1].work == Work(macs=4 * 3)
    assert both == 8 * (15 + 12 + 20)
    assert both_back == 8 * (20 + 15 + 12 + 15 + 12)
    assert one_back == 8 * (20 + 15 + 12 + 12)
    assert (add, add_back) == (8 * (15 + 15), 8 * (15 + 15))
    assert view == 0
    assert picked == 8 * (6 + 6)
