"""Cost formulas against counts of our own: loops that count, and the products that NumPy was really asked for."""

import itertools
from typing import Any

import numpy as np
import pytest

from tests.core.cases import CASES, Case, normal
from tests.core.recording import Recorder
from tinytorch.core import ops
from tinytorch.core.dispatch import observed_by
from tinytorch.core.op import Call, Work
from tinytorch.core.tensor import Tensor

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
