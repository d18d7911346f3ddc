"""``tinytorch profile``: where the time, arithmetic and memory of a model or of a whole script go."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import fields
from functools import partial
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.cli.program_report import html_report
from tinytorch.cli.usage import Commands, UsageError, check_folder, sizes
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.core.undisturbed import undisturbed
from tinytorch.perf.events.stream import Profile
from tinytorch.perf.host.blas import thread_limit
from tinytorch.perf.machine import store
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.perf.measuring.model_io import zeros_for
from tinytorch.perf.onnx import OnnxModel, from_onnx
from tinytorch.perf.profiling.breakdown import OpRow
from tinytorch.perf.profiling.model_profile import (
    LossFunction,
    checked_module,
    example_of,
    made_by,
    profile_model,
    run_once,
)
from tinytorch.perf.profiling.profiler import Profiler
from tinytorch.perf.profiling.program import profile_program
from tinytorch.perf.profiling.repeated import repeated, save_repeated
from tinytorch.perf.profiling.shares import recordings


def add(commands: Commands) -> None:
    """Add the command's options to the command line."""
    columns = [field.name for field in fields(OpRow)]
    profile = commands.add_parser("profile", help="show where the time of a script, or of a model, goes")
    profile.add_argument(
        "model",
        metavar="WHAT",
        help=f"a script, such as train.py, with its own arguments behind it; {', '.join(models.ZOO)}; a file of another"
        " framework (model.onnx); or module:factory, a function that returns a Module",
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
        "--given",
        metavar="NAME=NUMBER",
        action="append",
        default=[],
        help="fix an input of a file that is a setting and no data, such as rate=16000; may be given several times",
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
    profile.add_argument("--html", metavar="FILE", help="write a report as one page that needs no other file")
    profile.add_argument("--stacks", metavar="FILE", help="write collapsed stacks, for tools that draw flame graphs")
    profile.add_argument("--memory", action="store_true", help="run a script a second time, for its memory")
    profile.add_argument("--save", metavar="FILE", help="record it --repeats times more, for `tinytorch diff`")
    profile.add_argument("--repeats", type=int, default=12, metavar="N", help="runs that --save keeps (default 12)")
    profile.set_defaults(run=_run, arguments=[])


#: Options that name a file to write.
_FILES = ("--trace", "--json", "--html", "--stacks", "--save")


def own_part(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the command's arguments and, behind the name of a script, the script's own."""
    for index, argument in enumerate(arguments):
        if index and arguments[0] == "profile" and argument.endswith(".py") and not _is_of(arguments[index - 1]):
            return list(arguments[: index + 1]), list(arguments[index + 1 :])
    return list(arguments), []


def _is_of(option: str) -> bool:
    """Return whether what stands behind ``option`` is its value: of all but the flags."""
    return option.startswith("--") and "=" not in option and option not in ("--backward", "--memory")


def _run(chosen: argparse.Namespace) -> int:
    if chosen.batch < 1:
        raise UsageError(f"--batch must be at least 1, not {chosen.batch}")
    if chosen.seq_len is not None and chosen.seq_len < 1:
        raise UsageError(f"--seq-len must be at least 1, not {chosen.seq_len}")
    if chosen.limit < 1:
        raise UsageError(f"--limit must be at least 1, not {chosen.limit}")
    if chosen.repeats < 1:
        raise UsageError(f"--repeats must be at least 1, not {chosen.repeats}")
    for option in _FILES:
        check_folder(option.removeprefix("--"), getattr(chosen, option.removeprefix("--")))
    return _run_script(chosen) if chosen.model.endswith(".py") else _run_model(chosen)


def _run_script(chosen: argparse.Namespace) -> int:
    for option in ("backward", "seq_len", "input_shape", "given"):
        if getattr(chosen, option):
            raise UsageError(f"--{option.replace('_', '-')} is for a model, and {chosen.model} is a script")
    if chosen.batch != 1:
        raise UsageError(f"--batch is for a model, and {chosen.model} is a script")
    _tell_of_options(chosen.model, chosen.arguments)
    if chosen.html:
        _tell_of_ceilings()
        store.ceilings(thread_limit())
    done = profile_program(chosen.model, chosen.arguments, chosen.memory)
    sys.stdout.flush()
    _write(chosen, done.name, done.profiler, [f"It ended with exit code {done.exit_code}."] if done.exit_code else [])
    if chosen.save:

        def record() -> list[Profile]:
            with redirect_stdout(io.StringIO()):  # it has said already what it says
                return [profile_program(chosen.model, chosen.arguments).profiler.run for _ in range(chosen.repeats)]

        save_repeated(repeated(done.name, record), chosen.save)
    if chosen.json:
        write_whole(chosen.json, json.dumps(done.to_json(), allow_nan=False))
    done.profiler.print_top_operations(chosen.limit, chosen.sort_by)
    print()
    done.profiler.print_by_layer()
    return done.exit_code


def _tell_of_options(script: str, arguments: Sequence[str]) -> None:
    """Say which options of the command stand behind the script, where they are the script's own."""
    if behind := [argument for argument in arguments if argument.partition("=")[0] in _FILES]:
        said = f"note: {', '.join(behind)} behind {script} is handed to it; options of `tinytorch profile` go before it"
        print(said, file=sys.stderr)


def _tell_of_ceilings() -> None:
    if sys.stderr.isatty() and store.kept_ceilings(thread_limit()) is None:
        print("Measuring first, once, what this machine can do: up to a minute.", file=sys.stderr)


def _write(chosen: argparse.Namespace, name: str, profiler: Profiler, lines: Sequence[str] = ()) -> None:
    """Write the files that were asked for, of a script and of a model alike."""
    if chosen.trace:
        profiler.export_chrome_trace(chosen.trace)
    if chosen.stacks:
        write_whole(chosen.stacks, profiler.collapsed_stacks())
    if chosen.html:
        write_whole(chosen.html, html_report(name, profiler, store.kept_ceilings(profiler.run.blas_threads), lines))


def _run_model(chosen: argparse.Namespace) -> int:
    if chosen.memory:
        raise UsageError(f"--memory is for a script; of a model such as {chosen.model} memory is always followed")
    model, inputs, loss = _subject(chosen)
    if not chosen.backward or chosen.html:
        _tell_of_ceilings()
    done = profile_model(model, inputs, chosen.model, chosen.backward, loss)
    if chosen.html:
        store.ceilings(thread_limit())
    _write(chosen, chosen.model, done.profiler)
    if chosen.save:
        with undisturbed(model):
            once = partial(run_once, model, inputs, chosen.backward, loss)
            made = repeated(chosen.model, partial(recordings, once, chosen.repeats))
        save_repeated(made, chosen.save)
    if chosen.json:
        write_whole(chosen.json, json.dumps(done.to_json(), allow_nan=False))
    done.print_report(chosen.limit, chosen.sort_by)
    return 0


def _subject(chosen: argparse.Namespace) -> tuple[Module, Tensor, LossFunction | None]:
    """Return the model, its input, and the loss if the zoo knows one."""
    if chosen.model.endswith(".onnx"):
        read = from_onnx(chosen.model, given=_given_numbers(chosen.given))
        return read, _file_input(read, chosen), None
    if chosen.given:
        raise UsageError(f"--given is for a file such as model.onnx, not for {chosen.model}")
    if chosen.model not in models.ZOO:
        if ":" not in chosen.model:
            known = f"a script such as train.py, one of {', '.join(models.ZOO)}, FILE.onnx, or module:factory"
            raise UsageError(f"WHAT must be {known}, not {chosen.model!r}")
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


def _given_numbers(given: Sequence[str]) -> dict[str, float]:
    """Return the inputs of ``--given`` by name."""
    numbers: dict[str, float] = {}
    for each in given:
        name, _, number = each.rpartition("=")
        try:
            numbers[name] = float(number)
        except ValueError:
            raise UsageError(f"--given must be NAME=NUMBER, such as rate=16000, not {each!r}") from None
        if not name:
            raise UsageError(f"--given must name an input, as in rate=16000, not {each!r}")
    return numbers


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
