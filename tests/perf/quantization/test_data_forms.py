"""Whatever takes data takes it in the forms in which training takes it."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tinytorch import Linear, Sequential, Tensor
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.layers import Embedding
from tinytorch.perf.benchmarking import measure_performance
from tinytorch.perf.compression import KnowledgeDistillation
from tinytorch.perf.quantization import Plan, QuantizedLinear, prepare_training, quantize_model, sensitivity_scan

X = np.random.default_rng(0).normal(size=(8, 8)).astype(np.float32)
Y = np.arange(8) % 4
FORMS: dict[str, Callable[[], Any]] = {
    "array": lambda: X,
    "Tensor": lambda: Tensor(X),
    "list of batches": lambda: [Tensor(X[:4]), X[4:]],
    "loader of inputs": lambda: DataLoader(X, batch_size=4),
    "loader with targets": lambda: DataLoader(X, Y, batch_size=4),
    "list of pairs": lambda: [(X[:4], Y[:4]), (Tensor(X[4:]), Tensor(Y[4:]))],
    "generator of batches": lambda: (Tensor(X[i : i + 4]) for i in (0, 4)),
    "generator of pairs": lambda: ((X[i : i + 4], Y[i : i + 4]) for i in (0, 4)),
}


def model() -> Sequential:
    return Sequential(Linear(8, 8, seed=0), Linear(8, 4, seed=1))


@pytest.mark.parametrize("form", FORMS.values(), ids=[*FORMS])
def test_calibration_takes_every_form(form: Callable[[], Any]) -> None:
    expected = quantize_model(model(), Tensor(X))(Tensor(X)).data
    np.testing.assert_array_equal(quantize_model(model(), form())(Tensor(X)).data, expected)
    layer = model()[0]
    np.testing.assert_array_equal(
        QuantizedLinear(layer).calibrate(form())(Tensor(X)).data, QuantizedLinear(layer).calibrate([X])(Tensor(X)).data
    )
    rows = sensitivity_scan(model(), Tensor(X), Plan("static"), calibration_data=form())
    assert rows == sensitivity_scan(model(), Tensor(X), Plan("static"), calibration_data=Tensor(X))


@pytest.mark.parametrize("form", FORMS.values(), ids=[*FORMS])
def test_performance_takes_every_form(form: Callable[[], Any]) -> None:
    found = measure_performance(model(), form(), batches=(1,), repeats=6, at_most_seconds=0.1)
    assert found is not None


@pytest.mark.parametrize("data", ["digits", {"x": X}, 3, []])
def test_calibration_refuses_by_name(data: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="calibration_data"):
        quantize_model(model(), data)


@pytest.mark.parametrize(
    "make", [quantize_model, lambda m: prepare_training(m, Plan("weight-only"))], ids=["quantized", "rounded"]
)
def test_tokens_are_spelt_alike_after_quantization(make: Callable[[Any], Any]) -> None:
    made = make(Sequential(Embedding(10, 8, seed=0), Linear(8, 4, seed=0)))
    for tokens in (Tensor([[0, 1]]), [[0, 1]]):
        np.testing.assert_array_equal(made(tokens).data, made(np.array([[0, 1]])).data)
    with pytest.raises(TypeError, match="tokens"):
        made(Tensor([[0.5]]))


@pytest.mark.parametrize("masked", [(1, 1), (0, 0)], ids=["teacher's", "student's and teacher's"])
def test_distillation_counts_ruled_out_classes_as_zero(masked: tuple[int, int]) -> None:
    teacher, student = np.array([[1.0, 2, 3], [0, 1, 2]]), np.array([[1.0, 0.5, 2], [0, 1, 0.1]])
    teacher[masked] = -np.inf
    if masked == (0, 0):
        student[masked] = -np.inf
    course = KnowledgeDistillation(Linear(4, 3), Linear(4, 3), temperature=3.0, alpha=0.7)
    given = Tensor(student, requires_grad=True)
    loss = course.distillation_loss(given, teacher, Tensor([2, 1]))

    def soft(values: Any) -> Any:
        weights = np.exp(values - values.max(-1, keepdims=True))
        return weights / weights.sum(-1, keepdims=True)

    p, q = soft(teacher / 3), soft(student / 3)
    terms = [a * (np.log(a) - np.log(b)) for a, b in zip(p.flat, q.flat, strict=True) if a]
    hard = -np.log(soft(student)[[0, 1], [2, 1]]).mean()
    np.testing.assert_allclose(loss.item(), 0.7 * 9 * sum(terms) / 2 + 0.3 * hard, rtol=1e-12)
    loss.backward()
    assert given.grad is not None
    expected = 0.7 * 3 * (q - p) / 2 + 0.3 * (soft(student) - np.eye(3)[[2, 1]]) / 2
    np.testing.assert_allclose(given.grad, expected, atol=1e-12)
