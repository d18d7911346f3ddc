"""A user's model by its name ``module:factory``, and its whole profile as a command shows and writes it."""

from __future__ import annotations

import importlib
import math
import os
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.core.undisturbed import undisturbed
from tinytorch.perf.events.flops import NotCounted, loss_of
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.model_io import callable_of, zeros_for
from tinytorch.perf.profiling.profiler import Profiler


def made_by(target: str) -> Any:
    """Return what the function named ``module:factory`` returns; modules in the current folder are found.

    Raises:
        ValueError: if ``target`` has another form, cannot be imported, is no function, or raised; the message says
            which in one sentence.
    """
    module_name, _, factory_name = target.partition(":")
    if not module_name or not factory_name:
        raise ValueError(f"the model must be given as module:factory, not {target!r}")
    if os.getcwd() not in sys.path and "" not in sys.path:  # as `python -m` has it, so that one's own file is found
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise ValueError(f"module {module_name!r} cannot be imported: {_sentence(error)}") from error
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        raise ValueError(f"{target} must be a function that returns a Module, but module {module_name} has none")
    try:
        return factory()
    except Exception as error:
        raise ValueError(f"{target} raised {type(error).__name__}: {_sentence(error)}") from error


def checked_module(model: Any, target: str) -> Module:
    """Return ``model``, or raise ValueError if it is no Module."""
    if not isinstance(model, Module):
        raise ValueError(f"{target} must return a Module, not {type(model).__name__}")
    return model


def example_of(model: Module, target: str, batch: int, input_shape: tuple[int, ...] | None = None) -> Tensor:
    """Return zeros of ``input_shape`` (without the batch), or rows of the model's ``example_input``, ``batch`` of them.

    Raises:
        ValueError: if there is neither.
    """
    if input_shape is not None:
        return zeros_for(model, (batch, *input_shape))
    example = getattr(model, "example_input", None)
    if example is None:
        raise ValueError(f"{target} has no attribute example_input: give --input-shape, such as 1,28,28")
    return Tensor(rows_of(np.asarray(example.data if isinstance(example, Tensor) else example), batch))


def _sentence(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


SCHEMA_NAME = "tinytorch-profile"
#: Rises whenever a reader of the JSON would have to change.
SCHEMA_VERSION = 2

Json = dict[str, Any]
LossFunction = Callable[[Any], Tensor]


@dataclass(frozen=True)
class ModelProfile:
    """Result of `profile_model`: the summary's keys and a profiler that holds time with memory joined to it."""

    name: str
    input_shape: tuple[int, ...]
    backward: bool
    summary: dict[str, Any]
    profiler: Profiler

    def to_json(self) -> Json:
        """Return everything as one JSON object of `SCHEMA_NAME`, version `SCHEMA_VERSION`; times in seconds."""
        run, memory = self.profiler.run, self.profiler.memory
        return {
            "schema": SCHEMA_NAME,
            "schema_version": SCHEMA_VERSION,
            "model": self.name,
            "input_shape": list(self.input_shape),
            "backward": self.backward,
            "summary": _plain(self.summary),
            "wall_seconds": run.wall_seconds,
            "op_seconds": run.op_seconds,
            "profiler_overhead": _plain(self.profiler.recorder),
            "uncounted_ops": list(run.uncounted),
            "memory_highest_bytes": dict(memory.highest),
            "memory_peak_bytes": memory.peak,
            "ops": [asdict(row) for row in self.profiler.key_averages()],
            "layers": [asdict(row) for row in self.profiler.by_layer()],
        }

    def print_report(self, n: int) -> None:
        """Print the summary, the first ``n`` ops, and the layers."""
        mode = "forward and backward" if self.backward else "forward"
        print(f"{self.name}, {mode}, input {self.input_shape}")
        for key, value in self.summary.items():
            if isinstance(value, (bool, int, float, str)):
                print(f"  {key:<26} {_written(value)}")
        print()
        self.profiler.print_top_operations(n)
        print()
        self.profiler.print_by_layer()


def _written(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.4g}" if abs(value) < 1000 else f"{value:,.0f}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _plain(value: Any) -> Any:
    """Return what JSON can hold: measurements as median, interval and samples, other dataclasses as their fields.

    A count that is not known becomes null.
    """
    if isinstance(value, Measurement):
        low, high, confidence = value.interval.low, value.interval.high, value.interval.confidence
        interval = None if math.isnan(confidence) else {"low": low, "high": high, "confidence": confidence}
        return {"median": value.median, "unit": value.unit, "interval": interval, "samples": list(value.samples)}
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, NotCounted):
        return None
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def profile_model(
    model: Any, inputs: Tensor, name: str, backward: bool = False, loss_fn: LossFunction | None = None
) -> ModelProfile:
    """Return the profile of a forward of ``model``, or with ``backward`` of a forward and backward.

    Time and memory are separate runs of the same ops. The model is left as it was. ``loss_fn`` is that of
    `Profiler.profile_backward_pass`.
    """
    profiler = Profiler()
    if backward:
        summary = profiler.profile_backward_pass(model, inputs, loss_fn)
    else:
        summary = profiler.profile_forward_pass(model, inputs)
    with undisturbed(model), Profiler(memory=True) as memory:
        run_once(model, inputs, backward, loss_fn)
    return ModelProfile(name, inputs.shape, backward, summary, profiler.join(memory))


def run_once(model: Any, inputs: Tensor, backward: bool, loss_fn: LossFunction | None) -> None:
    """Run a forward without gradients, or with ``backward`` a forward and backward."""
    run = callable_of(model)
    if backward:
        loss_of(run(inputs), loss_fn).backward()
    else:
        with no_grad():
            run(inputs)


def rows_of(array: np.ndarray[Any, Any], batch: int) -> np.ndarray[Any, Any]:
    """Return ``batch`` rows of ``array``, repeated from its start if it is shorter.

    Raises:
        ValueError: if ``batch`` is below 1 or the array has no rows.
    """
    if batch < 1:
        raise ValueError(f"batch must be at least 1, not {batch}")
    if array.ndim < 1 or not len(array):
        raise ValueError(f"example_input must have at least one row, but its shape is {array.shape}")
    return array[np.arange(batch) % len(array)]
