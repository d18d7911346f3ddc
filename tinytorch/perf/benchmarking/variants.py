"""One version of a model in a benchmark: the model, and under what it runs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy.typing as npt

from tinytorch.core.module import Module
from tinytorch.perf.acceleration import accelerated
from tinytorch.perf.benchmarking.task import Right, Task
from tinytorch.perf.memoization import disable_kv_cache, enable_kv_cache
from tinytorch.perf.quantization import stored_bytes


@dataclass(frozen=True)
class Variant:
    """A model and how it runs.

    Attributes:
        name: what it is called in tables.
        model: what runs; a `Module`.
        kernels: whether the compiled kernels of `accelerated` are selected while it runs.
        cached: whether each call gives it a key-value cache of the batch's size; then it must be a GPT that generates.
    """

    name: str
    model: Module
    kernels: bool = False
    cached: bool = False

    def running(self) -> AbstractContextManager[None]:
        """Return the context that its calls belong in."""
        return accelerated() if self.kernels else nullcontext()

    def call(self, task: Task, inputs: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return the answers for ``inputs``; the caller is in `running`.

        With a cache its making is a part of the call.
        """
        if not self.cached:
            return task.perform(self.model, inputs)
        enable_kv_cache(self.model, len(inputs))
        try:
            return task.perform(self.model, inputs)
        finally:
            disable_kv_cache(self.model)

    def correct(self, task: Task) -> Right | None:
        """Return which examples of the whole test set it gets right, or None where none has a known answer."""
        with self.running():
            return replace(task, perform=lambda _, inputs: self.call(task, inputs)).correct(self.model)

    @property
    def stored_bytes(self) -> int:
        """Bytes of the model's state: parameters and buffers, codes and scales, each once."""
        return stored_bytes(self.model)


def variants_of(models: Mapping[str, Any]) -> dict[str, Variant]:
    """Return each of ``models``, modules or variants, as a `Variant` under its key.

    Modules are put into eval mode, as a benchmark of inference has them.

    Raises:
        ValueError: if there are none.
        TypeError: if one is neither a Module nor a Variant.
    """
    if not models:
        raise ValueError("models must name at least one model")
    return {name: variant_of(name, model) for name, model in models.items()}


def variant_of(name: str, model: Any) -> Variant:
    """Return ``model`` as a `Variant` of that name, in eval mode.

    Raises:
        TypeError: if it is neither a Module nor a Variant.
    """
    made = model if isinstance(model, Variant) else Variant(name, model)
    if not isinstance(made.model, Module):
        raise TypeError(f"model {name!r} must be a Module or a Variant of one, not {type(made.model).__name__}")
    made.model.eval()
    return replace(made, name=name)
