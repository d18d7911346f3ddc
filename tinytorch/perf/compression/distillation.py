"""Knowledge distillation: a small model learns from the answers of a large one, and from the labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch import models
from tinytorch.core import ops
from tinytorch.core.dataloader import DataLoader
from tinytorch.core.dispatch import apply, no_grad
from tinytorch.core.layers import as_indices
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.module import Module, check_module
from tinytorch.core.op import Array
from tinytorch.core.optimizers import Optimizer
from tinytorch.core.tensor import Tensor
from tinytorch.core.training import History, fit, train_step, training_steps
from tinytorch.core.undisturbed import evaluating, undisturbed
from tinytorch.perf.quantization.tradeoff import log_softmax

#: Examples that the teacher answers at a time.
_AT_A_TIME = 256


class KnowledgeDistillation:
    """Trains ``student`` on the outputs of ``teacher``: alpha T² KL(teacher || student) + (1 - alpha) cross-entropy.

    Both distributions of the divergence are softmax(logits / T); T² keeps its gradients as large as those of the
    labels' whatever T is.

    Args:
        teacher: a trained model; it is only run, in eval mode.
        student: any model with logits of the same shape.
        temperature: T, above 0: the larger, the more the teacher's small probabilities count.
        alpha: weight of the teacher, 0 to 1; at 0 the student learns from the labels alone.
        ignore_index: label whose positions do not count.

    Raises:
        ValueError: if a number is out of its range.

    Source: G. Hinton et al., Distilling the Knowledge in a Neural Network, 2015, arXiv:1503.02531, section 2.

    Examples:
        >>> import numpy as np
        >>> from tinytorch import Linear
        >>> from tinytorch.core.optimizers import AdamW
        >>> from tinytorch.perf.compression import KnowledgeDistillation
        >>> teacher, student = Linear(4, 3, seed=0), Linear(4, 3, seed=1)
        >>> x, labels = np.ones((32, 4), np.float32), np.zeros(32, np.int64)
        >>> course = KnowledgeDistillation(teacher, student, temperature=3.0, alpha=0.7)
        >>> history = course.fit(x, labels, AdamW(student.parameters(), lr=0.01), epochs=5)
        >>> history.losses[-1] < history.losses[0]
        True
    """

    def __init__(
        self,
        teacher: Module,
        student: Module,
        temperature: float = 3.0,
        alpha: float = 0.7,
        ignore_index: int | None = None,
    ) -> None:
        if not 0 < temperature < np.inf:
            raise ValueError(f"temperature must be above 0 and finite, not {temperature!r}")
        if not 0 <= alpha <= 1:
            raise ValueError(f"alpha must be from 0 to 1, not {alpha!r}")
        self.teacher, self.student = teacher, student
        self.temperature, self.alpha, self.ignore_index = float(temperature), float(alpha), ignore_index
        self._labels_loss = CrossEntropyLoss(ignore_index)

    def distillation_loss(self, student_logits: Tensor, teacher_logits: Tensor | Array, labels: Any) -> Tensor:
        """Return the loss, shape (), of logits (..., classes) of both and labels.

        Labels are whole numbers (...), or one-hot (..., classes).

        Raises:
            ValueError: if the shapes of the logits differ, the teacher's hold NaN or infinity (minus infinity rules a
                class out), labels are not whole numbers or those of the logits' shape not one-hot, or no position
                counts.
        """
        taught = np.asarray(teacher_logits._data if isinstance(teacher_logits, Tensor) else teacher_logits)
        if taught.shape != student_logits.shape:
            raise ValueError(f"teacher_logits must have the student's shape {student_logits.shape}, not {taught.shape}")
        targets = _class_labels(labels, student_logits.shape)
        counted = np.ones(targets.shape, bool) if self.ignore_index is None else targets != self.ignore_index
        if not counted.any():
            raise ValueError(f"labels must have at least one position that is not {self.ignore_index}")
        soft = self._divergence(student_logits, taught, counted) * (self.alpha * self.temperature**2)
        return soft + self._labels_loss(student_logits, targets) * (1 - self.alpha)

    def _divergence(self, logits: Tensor, taught: Array, counted: npt.NDArray[np.bool_]) -> Tensor:
        """Return the mean over counted positions of Σ p (ln p - ln q), in which a class of p = 0 counts 0."""
        taught = np.where(counted[..., None], taught, 0)
        if not np.isfinite(taught.max(axis=-1)).all():
            raise ValueError("teacher_logits must not hold NaN or infinity, except minus infinity next to finite ones")
        log_p = log_softmax(taught / self.temperature)
        weights = np.exp(log_p) * (counted / counted.sum())[..., None]
        if not counted.all():
            logits = apply(ops.where, counted[..., None], logits, 0.0)
        log_q = apply(ops.log_softmax, logits * (1 / self.temperature))
        # Where a weight is 0, its logarithm may be infinite, and so may the student's.
        some = weights > 0
        taken = apply(ops.where, some, log_q, 0.0)
        entropy = float((weights * np.where(some, log_p, 0)).sum())
        return (taken * -1 * Tensor(weights.astype(logits.dtype))).sum() + entropy

    def teacher_logits(self, inputs: npt.NDArray[Any]) -> Array:
        """Return the teacher's logits of all ``inputs``, a few at a time, without gradients.

        Raises:
            TypeError: if the teacher is not a Module.
        """
        check_module(self.teacher, "teacher")
        with undisturbed(self.teacher), evaluating(self.teacher), no_grad():
            parts = [
                self.teacher(models.as_input(inputs[first : first + _AT_A_TIME])).data
                for first in range(0, len(inputs), _AT_A_TIME)
            ]
        return np.concatenate(parts)

    def fit(
        self,
        inputs: npt.NDArray[Any],
        labels: npt.NDArray[Any],
        optimizer: Optimizer,
        epochs: int,
        *,
        batch_size: int = 64,
        schedule: Callable[[float], float] | None = None,
        seed: int = 0,
    ) -> History:
        """Train the student on examples; leave it in eval mode and return the mean loss of each epoch.

        The teacher answers each example once, before the training.

        Args:
            inputs: examples (N, ...).
            labels: whole numbers (N, ...), or one-hot.
            optimizer: of the student's parameters.
            epochs: passes over the examples.
            batch_size: examples of a step.
            schedule: factor of the learning rate, see `tinytorch.core.training.fit`.
            seed: random seed for the order of the examples.

        Raises:
            TypeError: if teacher or student is not a Module.
            ValueError: if inputs and labels differ in length, labels are not classes as in `distillation_loss`, or as
                `fit` of the framework does.
        """
        check_module(self.student, "student")
        if len(inputs) != len(labels) or not len(inputs):
            raise ValueError(f"labels must be as many as the {len(inputs)} inputs, at least one, not {len(labels)}")
        taught = self.teacher_logits(inputs)
        targets = _class_labels(labels, taught.shape)

        def loss(logits: Tensor, chosen: Any) -> Tensor:
            which = np.asarray(chosen._data if isinstance(chosen, Tensor) else chosen)
            return self.distillation_loss(logits, taught[which], targets[which])

        # The targets of a batch are the numbers of its examples: by them the loss finds labels and teacher's logits.
        batches = DataLoader(inputs, np.arange(len(inputs)), batch_size=batch_size, shuffle=True, seed=seed)
        # A plan would keep the labels and the teacher's logits of the first batch, which no op reads.
        with training_steps(lambda: train_step):
            return fit(self.student, batches, loss, optimizer, epochs, schedule=schedule, name="distillation")


def _class_labels(labels: Any, logits: tuple[int, ...]) -> npt.NDArray[Any]:
    """Return labels as integers; those of the logits' shape must have a single one in each row."""
    targets = np.asarray(labels._data if isinstance(labels, Tensor) else labels)
    if targets.shape != logits:
        try:
            return as_indices(targets, "labels")
        except TypeError as error:
            raise ValueError(str(error)) from None
    if not (np.isin(targets, (0, 1)).all() and (targets.sum(axis=-1) == 1).all()):
        raise ValueError(f"labels of the logits' shape {logits} must be one-hot: a single 1 in each row, else 0")
    return np.asarray(targets.argmax(axis=-1), np.int64)
