"""Distillation and fine-tuning: the loss against SciPy, its gradient, a student that learns, and masks that stay."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import log_softmax, rel_entr, softmax

from tests.core.cases import check_gradients
from tests.perf.quantization.small_zoo import batch, make
from tests.perf.small_models import INPUTS, OUTPUTS, two_layers
from tinytorch import models
from tinytorch.core.activations import GELU
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Parameter, Sequential
from tinytorch.core.optimizers import AdamW
from tinytorch.core.tensor import Tensor
from tinytorch.perf.compression import KnowledgeDistillation, magnitude_prune, measure_sparsity
from tinytorch.perf.compression.fine_tuning import train_together, trained_on

TEACHER, STUDENT = two_layers(), Linear(INPUTS, OUTPUTS, seed=3)
DRAW = np.random.default_rng(0)
LOGITS, TAUGHT = DRAW.normal(size=(4, 5, 3)) * 3, DRAW.normal(size=(4, 5, 3)) * 3
LABELS = DRAW.integers(0, 3, (4, 5))
LABELS[0, :2] = -100


@pytest.mark.parametrize("ruled_out", [np.s_[:0], np.s_[1, 1, 1], np.s_[:, 0, 0]], ids=["none", "one", "a column"])
@pytest.mark.parametrize(("temperature", "alpha"), [(1, 1), (4, 0.7), (0.5, 0.3), (20, 0)])
def test_the_loss_is_the_paper_s(temperature: float, alpha: float, ruled_out: Any) -> None:
    """Classes that the teacher rules out, by minus infinity, count as nothing."""
    taught = TAUGHT.copy()
    taught[ruled_out] = -np.inf
    distillation = KnowledgeDistillation(TEACHER, STUDENT, temperature, alpha, ignore_index=-100)
    got = distillation.distillation_loss(Tensor(LOGITS), taught, LABELS).item()
    counted = LABELS != -100
    p, q = (softmax(each / temperature, axis=-1) for each in (taught, LOGITS))
    divergence = rel_entr(p, q).sum(axis=-1)[counted].mean()
    labels = np.take_along_axis(log_softmax(LOGITS, axis=-1), np.where(counted, LABELS, 0)[..., None], -1)[..., 0]
    expected = alpha * temperature**2 * divergence - (1 - alpha) * labels[counted].mean()
    assert got == pytest.approx(expected, rel=1e-6)
    check_gradients(lambda logits: distillation.distillation_loss(logits, taught, LABELS), Parameter(LOGITS))


def test_huge_logits_stay_finite_and_agreement_costs_nothing() -> None:
    distillation = KnowledgeDistillation(TEACHER, STUDENT, 1, 1)
    for logits in (np.array([[1e4, -1e4, 0]], np.float32), np.array([[-np.inf, 1, 2]])):
        assert distillation.distillation_loss(Tensor(logits), logits, [1]).item() == pytest.approx(0, abs=1e-6)
    assert np.isfinite(distillation.distillation_loss(Tensor(-logits[:, 1:]), logits[:, 1:], [0]).item())


def test_a_student_learns_its_teacher_s_answers_without_labels() -> None:
    """With alpha 1 the labels, which are nonsense here, do not count."""
    inputs = DRAW.normal(size=(256, INPUTS)).astype(np.float32)
    teacher, student = Linear(INPUTS, OUTPUTS, seed=1), Linear(INPUTS, OUTPUTS, seed=2)
    kept = teacher.state_dict()
    distillation = KnowledgeDistillation(teacher, student, alpha=1)
    labels = DRAW.integers(0, OUTPUTS, 256)
    history = distillation.fit(inputs, labels, AdamW(student.parameters(), lr=0.05), 30, seed=1)
    assert history.losses[-1] < 0.02 * history.losses[0]
    answers = [model(Tensor(inputs)).data.argmax(axis=1) for model in (teacher, student)]
    assert (answers[0] == answers[1]).mean() > 0.97
    for name, values in teacher.state_dict().items():
        np.testing.assert_array_equal(values, kept[name])
    assert not student.training
    np.testing.assert_allclose(distillation.teacher_logits(inputs), teacher(Tensor(inputs)).data, rtol=1e-5, atol=1e-6)


def test_bad_arguments_are_named() -> None:
    for temperature in (0, -1, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="temperature"):
            KnowledgeDistillation(TEACHER, STUDENT, temperature)
    with pytest.raises(ValueError, match="alpha"):
        KnowledgeDistillation(TEACHER, STUDENT, alpha=1.1)
    distillation = KnowledgeDistillation(TEACHER, STUDENT, ignore_index=-1)
    for taught, labels, named in ((TAUGHT[:1], LABELS, "teacher_logits"), (TAUGHT, np.full((4, 5), -1), "position")):
        with pytest.raises(ValueError, match=named):
            distillation.distillation_loss(Tensor(LOGITS), taught, labels)
    for wrong in (np.nan, np.inf):
        taught = TAUGHT.copy()
        taught[1, 1, 1] = wrong
        with pytest.raises(ValueError, match="teacher_logits"):
            distillation.distillation_loss(Tensor(LOGITS), taught, LABELS)
    with pytest.raises(ValueError, match="labels"):
        distillation.fit(np.ones((3, INPUTS), np.float32), np.zeros(2, int), AdamW(STUDENT.parameters()), 1)


def test_training_is_kept_and_keyed_by_weights_masks_and_teacher(tmp_path: Path) -> None:
    model = make("mlp")
    how: dict[str, Any] = {"epochs": 1, "examples": 128, "folder": tmp_path}
    pruned = magnitude_prune(model, 0.8)
    first = trained_on("mlp", pruned, **how)
    assert measure_sparsity(first) == measure_sparsity(pruned)
    assert (first[1].weight.data != pruned[1].weight.data).any()  # type: ignore[index]
    assert len(list(tmp_path.glob("*.npz"))) == 1
    again = trained_on("mlp", pruned, **how)
    for name, values in again.state_dict().items():
        np.testing.assert_array_equal(values, first.state_dict()[name])
    assert len(list(tmp_path.glob("*.npz"))) == 1
    unmasked = make("mlp")
    unmasked.load_state_dict(pruned.state_dict())
    assert measure_sparsity(trained_on("mlp", unmasked, **how)) < 40, "the same values without masks are another start"
    student = models.mlp(1, (6, 5))
    alone, taught = trained_on("mlp", student, **how), trained_on("mlp", student, teacher=model, **how)
    assert (alone(batch("mlp")).data != taught(batch("mlp")).data).any()
    assert len(list(tmp_path.glob("*.npz"))) == 4
    assert models.accuracy(alone, "mlp") >= 0
    with pytest.raises(ValueError, match="examples"):
        trained_on("mlp", student, 1, examples=0)


@pytest.mark.parametrize("taught", [False, True])
def test_networks_that_train_together_become_what_each_becomes_alone(taught: bool, tmp_path: Path) -> None:
    networks = [magnitude_prune(models.mlp(seed, (12, 7)), 0.5) for seed in range(3)]
    teachers = [models.mlp(seed, (9, 8)) for seed in range(3)] if taught else None
    how: dict[str, Any] = {"epochs": 2, "learning_rate": 2e-3, "examples": 200}
    train_together("mlp", networks, **how, teachers=teachers, folder=tmp_path / "together")
    assert len(list((tmp_path / "together").iterdir())) == 3
    for index, network in enumerate(networks):
        teacher = teachers[index] if teachers else None
        kept = trained_on("mlp", network, **how, teacher=teacher, folder=tmp_path / "together")
        alone = trained_on("mlp", network, **how, teacher=teacher, folder=tmp_path / "alone")
        for name, values in alone.state_dict().items():
            np.testing.assert_allclose(kept.state_dict()[name], values, atol=1e-6)
            assert (values != network.state_dict()[name]).any()
    assert len(list((tmp_path / "together").iterdir())) == 3, "what was trained together is found, not trained again"


@pytest.mark.parametrize(
    ("networks", "said"),
    [
        ([models.mlp(0, (12, 7)), models.mlp(0, (12, 8))], "shape"),
        ([models.cnn(0), models.cnn(1)], "holds Conv2d"),
        ([Sequential(Linear(64, 10, bias=False, seed=0))], "holds Linear"),
        ([Sequential(Linear(64, 8, seed=0), GELU(), Linear(8, 10, seed=0))], "holds GELU"),
    ],
)
def test_networks_that_cannot_be_stacked_are_refused(networks: list[Module], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        train_together("mlp", networks, 1, folder=tmp_path)
    assert not list(tmp_path.iterdir())
