"""What a benchmark runs, by name: a suite of the zoo, or a user's ``module:factory``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.core.tensor import Tensor
from tinytorch.perf.benchmarking.task import Task, scoring, zoo_task
from tinytorch.perf.benchmarking.variants import Variant, variants_of
from tinytorch.perf.benchmarking.zoo import suite
from tinytorch.perf.profiling.model_profile import checked_module, example_of, made_by


def subject_of(name: str, input_shape: tuple[int, ...] | None = None) -> tuple[Task, dict[str, Variant]]:
    """Return the task and the variants of a suite of the zoo, or of a user's ``module:factory``.

    The factory returns a Module, or a mapping of names to modules or variants, of which the first is the baseline. The
    inputs are its ``example_input``, or zeros of ``input_shape``; ``example_target``, if there is one, are the right
    answers: then ``example_input`` is the test set.

    Raises:
        ValueError: if ``name`` is neither, or the factory cannot be used; one sentence says why.
    """
    if ":" not in name:
        if name not in models.ZOO:
            raise ValueError(f"the suite must be one of {', '.join(models.ZOO)}, or module:factory, not {name!r}")
        return zoo_task(name), suite(name)
    made = made_by(name)
    if not isinstance(made, Mapping):
        made = {name.partition(":")[2]: made}
    variants = variants_of(
        {key: each if isinstance(each, Variant) else checked_module(each, name) for key, each in made.items()}
    )
    return _task(name, next(iter(variants.values())).model, input_shape), variants


def _task(name: str, model: Any, input_shape: tuple[int, ...] | None) -> Task:
    if input_shape is not None:
        return scoring(example_of(model, name, 1, input_shape))
    example = getattr(model, "example_input", None)
    rows = 1 if example is None else len(_array(example))
    targets = getattr(model, "example_target", None)
    return scoring(example_of(model, name, rows), None if targets is None else _array(targets))


def _array(values: Any) -> np.ndarray[Any, Any]:
    return np.asarray(values.data if isinstance(values, Tensor) else values)
