"""What a model is asked to do, on which examples, and which of its answers are right."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch import datasets, models
from tinytorch.core.dispatch import no_grad
from tinytorch.core.tensor import Tensor
from tinytorch.perf.measuring.model_io import callable_of
from tinytorch.perf.memoization import generate
from tinytorch.perf.profiling.model_profile import rows_of

Right = npt.NDArray[np.bool_]
Perform = Callable[[Any, npt.NDArray[Any]], npt.NDArray[Any]]
#: Examples of one call when a whole test set is scored; a larger batch only takes more memory.
SCORED_AT_ONCE = 500


@dataclass(frozen=True)
class Task:
    """Inputs, the right answers if they are known, and how a model makes its answers.

    Attributes:
        name: what a call does, in words, and what an item of the throughput is.
        inputs: all examples, shape (N, ...); at least one.
        targets: right answers, N of them, or None: then there is no accuracy.
        perform: (model, inputs) to answers of as many examples, an array.
        right: (answers, targets) to a bool for each example.
    """

    name: str
    inputs: npt.NDArray[Any]
    targets: npt.NDArray[Any] | None
    perform: Perform
    right: Callable[[npt.NDArray[Any], npt.NDArray[Any]], Right]

    def __post_init__(self) -> None:
        if self.inputs.ndim < 1 or not len(self.inputs):
            raise ValueError(f"inputs must hold at least one example, but their shape is {self.inputs.shape}")
        if self.targets is not None and len(self.targets) != len(self.inputs):
            raise ValueError(f"targets must be as many as the {len(self.inputs)} inputs, not {len(self.targets)}")

    def batch(self, size: int) -> npt.NDArray[Any]:
        """Return ``size`` inputs, repeated from the start if there are fewer; ValueError if it is below 1."""
        return rows_of(self.inputs, size)

    def correct(self, model: Any) -> Right | None:
        """Return which examples of the whole test set ``model`` gets right, shape (N,), or None without targets."""
        if self.targets is None:
            return None
        parts = []
        for start in range(0, len(self.inputs), SCORED_AT_ONCE):
            chosen = slice(start, start + SCORED_AT_ONCE)
            parts.append(self.right(self.perform(model, self.inputs[chosen]), self.targets[chosen]))
        return np.concatenate(parts)


def scoring(inputs: Any, targets: Any = None, name: str = "forward") -> Task:
    """Return the task of one forward pass: an answer is the index of the largest output.

    Targets of shape (N,) name a class each. Those of shape (N, positions) name one for each position, and an example is
    right if all its positions are, but for those that say `datasets.IGNORED`.

    Raises:
        ValueError: if there are no inputs, or as many targets as inputs are not given.
    """
    return Task(name, _array(inputs), None if targets is None else _array(targets), _forward, _largest_is_right)


def sorting_generation() -> Task:
    """Return the zoo's GPT's task: read ten digits and the separator, and generate the same digits in order.

    The whole test part; a sequence is right if all its ten tokens are.
    """
    data = datasets.sorting()
    length = datasets.SORT_LENGTH
    prompts = data.test_inputs[:, : length + 1]
    return Task("generate 10 tokens", prompts, data.test_targets[:, length:], _generated, _all_equal)


def zoo_task(name: str) -> Task:
    """Return what the zoo's model of that name is for, on its whole test part.

    Raises:
        ValueError: if the zoo has no such model.
    """
    data = models.entry(name).data()
    return sorting_generation() if name == "gpt" else scoring(data.test_inputs, data.test_targets)


def task_of(data: Any) -> Task:
    """Return ``data`` as a task: a Task, a name of the zoo, a `datasets.Split`, (inputs, targets), or inputs alone.

    Raises:
        TypeError: if it is none of these.
        ValueError: if it is not fit for one.
    """
    if isinstance(data, Task):
        return data
    if isinstance(data, str):
        return zoo_task(data)
    if isinstance(data, datasets.Split):
        return scoring(data.test_inputs, data.test_targets)
    if isinstance(data, tuple) and len(data) == 2:
        return scoring(*data)
    return scoring(data)


def _array(values: Any) -> npt.NDArray[Any]:
    if isinstance(values, Tensor):
        return values.data
    if isinstance(values, np.ndarray):
        return values
    raise TypeError(
        "data must be a Task, a name of the zoo, a Split, (inputs, targets) or inputs, of arrays or Tensors, "
        f"not {type(values).__name__}"
    )


def _forward(model: Any, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    with no_grad():
        output = callable_of(model)(models.as_input(inputs))
    return output.data if isinstance(output, Tensor) else np.asarray(output)


def _largest_is_right(outputs: npt.NDArray[Any], targets: npt.NDArray[Any]) -> Right:
    chosen = outputs.argmax(axis=-1)
    if chosen.shape != targets.shape:
        raise ValueError(f"targets must name one class for each output {chosen.shape}, not be {targets.shape}")
    right = (chosen == targets) | (targets == datasets.IGNORED)
    return np.asarray(right.reshape(len(right), -1).all(axis=1))


def _generated(model: Any, prompts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return generate(model, prompts, datasets.SORT_LENGTH)[:, prompts.shape[1] :]


def _all_equal(answers: npt.NDArray[Any], targets: npt.NDArray[Any]) -> Right:
    return np.asarray((answers == targets).all(axis=1))
