"""``tinytorch profile``: where the time, arithmetic and memory of a model go."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import fields
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.cli.usage import Commands, UsageError, check_folder, sizes
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.perf.host.blas import thread_limit
from tinytorch.perf.machine import store
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.perf.measuring.model_io import zeros_for
from tinytorch.perf.onnx import OnnxModel, from_onnx
from tinytorch.perf.profiling.breakdown import OpRow
from tinytorch.perf.profiling.model_profile import LossFunction, checked_module, example_of, made_by, profile_model


def add(commands: Commands) -> None:
    """Add the command's options to the command line."""
    columns = [field.name for field in fields(OpRow)]
    profile = commands.add_parser("profile", help="show where the time, arithmetic and memory of a model go")
    profile.add_argument(
        "model",
        metavar="MODEL",
        help=f"{', '.join(models.ZOO)}, a file of another framework (model.onnx), or module:factory, a function that "
        "returns a Module",
    )
    profile.add_argument("--batch", type=int, default=1, metavar="N", help="inputs at a time (default 1)")
    profile.add_argument("--backward", action="store_true", help="run and profile backward too")
    profile.add_argument("--seq-len", type=int, metavar="T", help="positions, for a model that takes tokens")
    profile.add_argument(
        "--input-shape",
        metavar="SIZES",
        help="shape of one input, such as 1,28,28, of module:factory (else its attribute example_input), and of a file "
        "that leaves it open",
    )
    profile.add_argument(
        "--sort-by",
        default="self_seconds",
        choices=columns,
        metavar="COLUMN",
        help="column that orders the ops: " + ", ".join(columns),
    )
    profile.add_argument("--limit", type=int, default=10, metavar="N", help="ops to show (default 10)")
    profile.add_argument("--trace", metavar="FILE", help="write a timeline for https://ui.perfetto.dev")
    profile.add_argument("--json", metavar="FILE", help="write everything as JSON")
    profile.set_defaults(run=_run)


def _run(chosen: argparse.Namespace) -> None:
    if chosen.batch < 1:
        raise UsageError(f"--batch must be at least 1, not {chosen.batch}")
    if chosen.seq_len is not None and chosen.seq_len < 1:
        raise UsageError(f"--seq-len must be at least 1, not {chosen.seq_len}")
    if chosen.limit < 1:
        raise UsageError(f"--limit must be at least 1, not {chosen.limit}")
    for option in ("trace", "json"):
        check_folder(option, getattr(chosen, option))
    model, inputs, loss = _subject(chosen)
    if not chosen.backward and sys.stderr.isatty() and store.kept_ceilings(thread_limit()) is None:
        print("Measuring first, once, what this machine can do: some ten seconds.", file=sys.stderr)
    done = profile_model(model, inputs, chosen.model, chosen.backward, loss)
    if chosen.trace:
        done.profiler.export_chrome_trace(chosen.trace)
    if chosen.json:
        write_whole(chosen.json, json.dumps(done.to_json(), allow_nan=False))
    done.print_report(chosen.limit, chosen.sort_by)


def _subject(chosen: argparse.Namespace) -> tuple[Module, Tensor, LossFunction | None]:
    """Return the model, its input, and the loss if the zoo knows one."""
    if chosen.model.endswith(".onnx"):
        read = from_onnx(chosen.model)
        return read, _file_input(read, chosen), None
    if chosen.model not in models.ZOO:
        if ":" not in chosen.model:
            raise UsageError(
                f"MODEL must be one of {', '.join(models.ZOO)}, FILE.onnx, or module:factory, not {chosen.model!r}"
            )
        model = checked_module(made_by(chosen.model), chosen.model)
        return model, _given_input(model, chosen), None
    if chosen.input_shape:
        raise UsageError(f"--input-shape is for module:factory; {chosen.model} of the zoo brings its own input")
    entry = models.entry(chosen.model)
    inputs, targets = entry.example_input(chosen.batch), entry.example_target(chosen.batch)
    if chosen.seq_len is not None:
        if inputs.dtype.kind not in "iu":
            raise UsageError(f"--seq-len is for a model that takes tokens, and {chosen.model} takes none")
        inputs, targets = (_positions(array, chosen.seq_len) for array in (inputs, targets))
    loss = models.loss_function()
    return entry.make(0), Tensor(inputs), lambda output: loss(output, targets)


def _positions(array: np.ndarray[Any, Any], length: int) -> np.ndarray[Any, Any]:
    """Return ``length`` positions of (batch, positions), repeated from the start if there are fewer."""
    return array[:, np.arange(length) % array.shape[1]]


def _file_input(model: OnnxModel, chosen: argparse.Namespace) -> Tensor:
    """Return zeros for the first input of a file: of the shape that it declares, or of the one that is asked for."""
    if chosen.input_shape or chosen.seq_len is None:
        return _given_input(model, chosen) if chosen.input_shape else model.example(chosen.batch)[0]
    if len(model.inputs[0].shape) != 2:
        raise UsageError(f"--seq-len needs an input of shape (batch, positions), not {model.inputs[0].described()}")
    return zeros_for(model, (chosen.batch, chosen.seq_len))


def _given_input(model: Module, chosen: argparse.Namespace) -> Tensor:
    """Return zeros of ``--input-shape``, or rows of ``example_input`` of the model, ``--batch`` of them."""
    if chosen.input_shape:
        if chosen.seq_len is not None:
            raise UsageError("--seq-len and --input-shape exclude each other: the shape holds the positions")
        return example_of(model, chosen.model, chosen.batch, sizes("--input-shape", chosen.input_shape))
    inputs = example_of(model, chosen.model, chosen.batch)
    if chosen.seq_len is None:
        return inputs
    if inputs.ndim != 2:
        raise UsageError(f"--seq-len needs an example_input of shape (batch, positions), not {inputs.shape}")
    return Tensor(_positions(inputs.data, chosen.seq_len))
