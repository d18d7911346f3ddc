"""The command line: a thin edge that reads arguments, calls the instruments, and prints."""

from __future__ import annotations

import argparse
import importlib
import json
import os
import sys
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from tinytorch import models
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.perf import hardware
from tinytorch.perf.breakdown import OpRow
from tinytorch.perf.model_profile import LossFunction, profile_model, rows_of
from tinytorch.perf.subject import zeros_for
from tinytorch.perf.timing import current_blas_threads
from tinytorch.perf.trace import write_whole
from tinytorch.report.machine_listing import examine, print_examination


class UsageError(Exception):
    """What the user asked for cannot be done; the message is one sentence that says why."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, or 2 with one sentence on stderr."""
    chosen = _parser().parse_args(arguments)
    try:
        chosen.run(chosen)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe, such as head, has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (UsageError, ValueError, TypeError, LookupError, RuntimeError, OSError) as error:
        print(f"tinytorch {chosen.command}: {_sentence(error)}", file=sys.stderr)
        return 2
    return 0


def _sentence(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence, without the usage around it."""

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message}\n")


def _parser() -> argparse.ArgumentParser:
    columns = [field.name for field in fields(OpRow)]
    parser = _Parser(prog="tinytorch", description="Instruments for the performance of models.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    profile = commands.add_parser("profile", help="show where the time, arithmetic and memory of a model go")
    profile.add_argument(
        "model", metavar="MODEL", help=f"{', '.join(models.ZOO)}, or module:factory, a function that returns a Module"
    )
    profile.add_argument("--batch", type=int, default=1, metavar="N", help="inputs at a time (default 1)")
    profile.add_argument("--backward", action="store_true", help="run and profile backward too")
    profile.add_argument("--seq-len", type=int, metavar="T", help="positions, for a model that takes tokens")
    profile.add_argument(
        "--input-shape",
        metavar="SIZES",
        help="shape of one input of module:factory, such as 1,28,28 (else its attribute example_input)",
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
    profile.set_defaults(run=_profile)
    machine = commands.add_parser("machine", help="show what this machine is, and what it can do at most")
    machine.add_argument("--refresh", action="store_true", help="measure anew what is kept from an earlier run")
    machine.add_argument("--json", metavar="FILE", help="write everything as JSON")
    machine.set_defaults(run=_machine)
    return parser


def _machine(chosen: argparse.Namespace) -> None:
    _check_folder("json", chosen.json)
    examined = examine(refresh=chosen.refresh)
    if chosen.json:
        write_whole(chosen.json, json.dumps(examined.to_json(), allow_nan=False))
    print_examination(examined)


def _check_folder(option: str, path: str | None) -> None:
    if path and not Path(path).absolute().parent.is_dir():
        raise UsageError(f"--{option} {path} is in a folder that does not exist")


def _profile(chosen: argparse.Namespace) -> None:
    if chosen.batch < 1:
        raise UsageError(f"--batch must be at least 1, not {chosen.batch}")
    if chosen.seq_len is not None and chosen.seq_len < 1:
        raise UsageError(f"--seq-len must be at least 1, not {chosen.seq_len}")
    if chosen.limit < 1:
        raise UsageError(f"--limit must be at least 1, not {chosen.limit}")
    for option in ("trace", "json"):
        _check_folder(option, getattr(chosen, option))
    model, inputs, loss = _subject(chosen)
    if not chosen.backward and sys.stderr.isatty() and hardware.kept_ceilings(current_blas_threads()) is None:
        print("Measuring first, once, what this machine can do: some ten seconds.", file=sys.stderr)
    done = profile_model(model, inputs, chosen.model, chosen.backward, loss)
    if chosen.trace:
        done.profiler.export_chrome_trace(chosen.trace)
    if chosen.json:
        write_whole(chosen.json, json.dumps(done.to_json(), allow_nan=False))
    done.print_report(chosen.limit, chosen.sort_by)


def _subject(chosen: argparse.Namespace) -> tuple[Module, Tensor, LossFunction | None]:
    """Return the model, its input, and the loss if the zoo knows one."""
    if chosen.model not in models.ZOO:
        model = _from_factory(chosen.model)
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


def _from_factory(target: str) -> Module:
    module_name, _, factory_name = target.partition(":")
    if not module_name or not factory_name:
        raise UsageError(f"MODEL must be one of {', '.join(models.ZOO)}, or module:factory, not {target!r}")
    if os.getcwd() not in sys.path and "" not in sys.path:  # as `python -m` has it, so that one's own file is found
        sys.path.insert(0, os.getcwd())
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise UsageError(f"module {module_name!r} cannot be imported: {_sentence(error)}") from error
    factory = getattr(module, factory_name, None)
    if not callable(factory):
        raise UsageError(f"{target} must be a function that returns a Module, but module {module_name} has none")
    try:
        model = factory()
    except Exception as error:
        raise UsageError(f"{target} raised {type(error).__name__}: {_sentence(error)}") from error
    if not isinstance(model, Module):
        raise UsageError(f"{target} must return a Module, not {type(model).__name__}")
    return model


def _given_input(model: Module, chosen: argparse.Namespace) -> Tensor:
    """Return zeros of ``--input-shape``, or rows of ``example_input`` of the model, ``--batch`` of them."""
    if chosen.input_shape:
        if chosen.seq_len is not None:
            raise UsageError("--seq-len and --input-shape exclude each other: the shape holds the positions")
        return zeros_for(model, (chosen.batch, *_sizes(chosen.input_shape)))
    example = getattr(model, "example_input", None)
    if example is None:
        raise UsageError(f"{chosen.model} has no attribute example_input: give --input-shape, such as 1,28,28")
    inputs = rows_of(np.asarray(example.data if isinstance(example, Tensor) else example), chosen.batch)
    if chosen.seq_len is not None:
        if inputs.ndim != 2:
            raise UsageError(f"--seq-len needs an example_input of shape (batch, positions), not {inputs.shape}")
        inputs = _positions(inputs, chosen.seq_len)
    return Tensor(inputs)


def _sizes(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"--input-shape must be whole numbers and commas, such as 1,28,28, not {text!r}") from None
