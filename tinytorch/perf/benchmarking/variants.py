"""Tasks and variants: what a model is asked to do, which answers are right, and under what a version of it runs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from tinytorch import datasets, models
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import as_indices
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.core.undisturbed import evaluating, undisturbed
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.measuring.model_io import callable_of
from tinytorch.perf.memoization import cache_of, empty_cache, generate
from tinytorch.perf.profiling.model_profile import rows_of
from tinytorch.perf.quantization import stored_bytes

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
        timed: (model, inputs) to what a timed call does, if that is not ``perform``.
    """

    name: str
    inputs: npt.NDArray[Any]
    targets: npt.NDArray[Any] | None
    perform: Perform
    right: Callable[[npt.NDArray[Any], npt.NDArray[Any]], Right]
    timed: Perform | None = None

    def __post_init__(self) -> None:
        if self.inputs.ndim < 1 or not len(self.inputs):
            raise ValueError(f"inputs must hold at least one example, but their shape is {self.inputs.shape}")
        if self.targets is not None and len(self.targets) != len(self.inputs):
            raise ValueError(f"targets must be as many as the {len(self.inputs)} inputs, not {len(self.targets)}")

    @property
    def digest(self) -> str:
        """What tells its inputs and targets from others."""
        made = hashlib.blake2b(digest_size=16)
        for array in (self.inputs, np.empty(0) if self.targets is None else self.targets):
            made.update(f"{array.dtype} {array.shape} ".encode())
            made.update(np.ascontiguousarray(array).tobytes())
        return made.hexdigest()

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


def sorting_generation(data: datasets.Split | None = None) -> Task:
    """Return the zoo's GPT's task: read ten digits and the separator, and generate the same digits in order.

    The whole test part of ``data``, by default `datasets.sorting`; a sequence is right if all its ten tokens are.
    """
    data, length = data or datasets.sorting(), datasets.SORT_LENGTH
    prompts = data.test_inputs[:, : length + 1]
    return Task("generate 10 tokens", prompts, data.test_targets[:, length:], _generated, _all_equal)


def with_generation(task: Task, variants: Mapping[str, Variant]) -> Task:
    """Return the task of a suite: if one of its models is a GPT with a cache, a timed call generates.

    A cache has no use for a pass over whole sequences, which scores the examples all the same. A timed call reads the
    first half of each sequence and generates as many tokens as the second half has, at least one.

    Raises:
        TypeError: if another of the models is no GPT, or the inputs are no sequences of tokens.
    """
    if task.perform is not _forward or not any(variant.cached for variant in variants.values()):
        return task
    for name, variant in variants.items():
        if not isinstance(variant.model, GPT):
            raise TypeError(
                f"models must all be GPTs if one has a key-value cache, because a timed call generates then, but "
                f"{name!r} is a {type(variant.model).__name__}"
            )
    if task.inputs.ndim != 2:
        raise TypeError(f"inputs of a GPT must be tokens of shape (examples, positions), not {task.inputs.shape}")
    positions = task.inputs.shape[1]
    prompt = max(1, positions // 2)
    count = max(1, positions - prompt)

    def generated(model: Any, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        return generate(model, inputs[:, :prompt], count)

    return replace(task, name=f"generate {count} of {prompt + count} tokens", timed=generated)


def zoo_task(name: str) -> Task:
    """Return what the zoo's model of that name is for, on its whole test part.

    Raises:
        ValueError: if the zoo has no such model.
    """
    data = models.entry(name).data()
    return sorting_generation() if name == "gpt" else scoring(data.test_inputs, data.test_targets)


def task_of(data: Any, model: Module | None = None) -> Task:
    """Return ``data`` as a task: a Task, a name of the zoo, a `datasets.Split`, (inputs, targets), or inputs alone.

    A `DataLoader`, list or generator of batches is all of its examples, of inputs alone or with targets.

    None stands for what ``model`` has of its own: ``example_input`` and, if there is one, ``example_target``.

    Raises:
        TypeError: if it is none of these.
        ValueError: if it is not fit for one.
    """
    if data is None:
        return scoring(getattr(model, "example_input", None), getattr(model, "example_target", None))
    if isinstance(data, Task):
        return data
    if isinstance(data, str):
        return zoo_task(data)
    if isinstance(data, datasets.Split):
        return scoring(data.test_inputs, data.test_targets)
    if isinstance(data, tuple) and len(data) == 2:
        return scoring(*data)
    if isinstance(data, Iterable) and not isinstance(data, (Tensor, np.ndarray, dict)):
        inputs, *targets = _joined(data)
        return scoring(inputs, targets[0] if targets else None)
    return scoring(data)


def _joined(batches: Iterable[Any]) -> list[npt.NDArray[Any]]:
    """Return the inputs of all batches, and their targets if they have some."""
    parts = [[_array(part) for part in (batch if isinstance(batch, tuple) else (batch,))] for batch in batches]
    if not parts or len({len(batch) for batch in parts}) != 1 or not 1 <= len(parts[0]) <= 2:
        raise ValueError("data must hold at least one batch, and all of them inputs alone or all (inputs, targets)")
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


def _array(values: Any) -> npt.NDArray[Any]:
    if isinstance(values, Tensor):
        return values.data
    if isinstance(values, np.ndarray):
        return values
    if values is None:
        raise TypeError(
            "data must be given, such as (inputs, targets), as the model has no example_input (and example_target) of "
            "its own"
        )
    raise TypeError(
        "data must be a Task, a name of the zoo, a Split, (inputs, targets) or inputs, of arrays or Tensors, "
        f"not {type(values).__name__}"
    )


def _forward(model: Any, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
    with no_grad():
        output = callable_of(model)(models.as_input(inputs))
    answers = output.data if isinstance(output, Tensor) else np.asarray(output)
    if not answers.size:
        raise ValueError(
            f"outputs must hold an answer for each of {len(inputs)} inputs, but are empty: {answers.shape}"
        )
    return answers


def _largest_is_right(outputs: npt.NDArray[Any], targets: npt.NDArray[Any]) -> Right:
    if not np.isfinite(outputs).all():
        broken = (~np.isfinite(outputs).reshape(len(outputs), -1).all(axis=1)).sum()
        raise ValueError(
            f"outputs must be finite to be right or wrong, but {broken} of {len(outputs)} hold NaN or infinity"
        )
    chosen = outputs.argmax(axis=-1)
    if chosen.shape != targets.shape:
        raise ValueError(f"targets must name one class for each output {chosen.shape}, not be {targets.shape}")
    targets = _classes(targets, outputs.shape[-1])
    right = (chosen == targets) | (targets == datasets.IGNORED)
    return np.asarray(right.reshape(len(right), -1).all(axis=1))


def _classes(given: npt.NDArray[Any], classes: int) -> npt.NDArray[Any]:
    """Return targets as integers.

    Raises:
        ValueError: if one is no class, that is no whole number from 0 on, below the number of classes; or if all of an
            example's are ignored, which would be right whatever the outputs are.
    """
    try:
        targets = as_indices(given, "targets")
    except TypeError as error:
        raise ValueError(str(error)) from None
    unscored = (targets == datasets.IGNORED).reshape(len(targets), -1).all(axis=1)
    if unscored.any():
        raise ValueError(
            f"targets must name a class for each example, but {unscored.sum()} of {len(targets)} only say "
            f"{datasets.IGNORED}, ignored"
        )
    wrong = targets[(targets != datasets.IGNORED) & ((targets < 0) | (targets >= classes))]
    if wrong.size:
        raise ValueError(f"targets must name classes from 0 to {classes - 1}, but {wrong[0]} is among them")
    return targets


def _generated(model: Any, prompts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return generate(model, prompts, datasets.SORT_LENGTH)[:, prompts.shape[1] :]


def _all_equal(answers: npt.NDArray[Any], targets: npt.NDArray[Any]) -> Right:
    return np.asarray((answers == targets).all(axis=1))


@dataclass(frozen=True)
class Variant:
    """A model and how it runs.

    Attributes:
        name: what it is called in tables.
        model: what runs; a `Module`.
        kernels: whether the compiled kernels of `accelerated` are selected while it runs.
        cached: whether each call gives it an empty key-value cache of the batch's size; then it must be a GPT. One that
            has a cache is given one of the same kind, and has its own back afterwards.
    """

    name: str
    model: Module
    kernels: bool = False
    cached: bool = False

    @contextmanager
    def running(self) -> Iterator[None]:
        """Run the body as its calls have to be run: in eval mode, which is no longer the model's afterwards."""
        with evaluating(self.model), accelerated() if self.kernels else nullcontext():
            yield

    def undisturbed(self) -> AbstractContextManager[None]:
        """Return the context that leaves the model as it was; `call` gives one with a cache another one anyhow."""
        return nullcontext() if self.cached else undisturbed(self.model)

    def call(self, task: Task, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return what a timed call gives for ``inputs``; the caller is in `running`.

        With a cache its making is a part of the call.
        """
        return self._run(task.timed or task.perform, inputs)

    def _run(self, perform: Perform, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        if not self.cached:
            return perform(self.model, inputs)
        with empty_cache(self.model, len(inputs)):
            return perform(self.model, inputs)

    def correct(self, task: Task) -> Right | None:
        """Return which examples of the whole test set it gets right, or None where none has a known answer.

        Raises:
            ValueError: if weights or outputs are not finite, or a target is no class.
        """
        broken = [name for name, value in self.model.named_parameters() if not np.isfinite(value.data).all()]
        if broken:
            raise ValueError(f"weights of {self.name} must be finite to be scored, but {', '.join(broken)} are not")
        with self.running():
            return replace(task, perform=lambda _, inputs: self._run(task.perform, inputs)).correct(self.model)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the model's state: parameters and buffers, codes and scales, each once; of a file its own."""
        return getattr(self.model, "file_bytes", None) or stored_bytes(self.model)


def variants_of(models: Mapping[str, Any]) -> dict[str, Variant]:
    """Return each of ``models``, modules or variants, as a `Variant` under its key.

    Raises:
        ValueError: if there are none.
        TypeError: if one is neither a Module nor a Variant.
    """
    if not models:
        raise ValueError("models must name at least one model")
    made = {name: variant_of(name, model) for name, model in models.items()}
    seen: dict[int, str] = {}
    for name, variant in made.items():
        if variant.model is models[name] and variant.cached and seen.setdefault(id(variant.model), name) != name:
            raise ValueError(
                f"models must be objects of their own, but {seen[id(variant.model)]!r} and {name!r} are one GPT, whose "
                "cache both would have: copy.deepcopy the model before enable_kv_cache"
            )
    return made


def variant_of(name: str, model: Any) -> Variant:
    """Return ``model`` as a `Variant` of that name.

    Raises:
        TypeError: if it is neither a Module nor a Variant.
    """
    has_cache = isinstance(model, GPT) and cache_of(model) is not None
    made = model if isinstance(model, Variant) else Variant(name, model, cached=has_cache)
    if not isinstance(made.model, Module):
        raise TypeError(f"model {name!r} must be a Module or a Variant of one, not {type(made.model).__name__}")
    return replace(made, name=name)
