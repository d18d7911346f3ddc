"""``tinytorch profile``: where the time, arithmetic and memory of a model or of a whole script go."""

from __future__ import annotations

import argparse
import io
import json
import math
import os
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import redirect_stdout
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tinytorch import models
from tinytorch.cli.usage import Parser, UsageError, check_above_zero, check_batch, check_folder, progress, sizes
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.core.undisturbed import undisturbed
from tinytorch.perf.events.stream import Profile
from tinytorch.perf.host.blas import thread_limit
from tinytorch.perf.machine import store
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.perf.measuring.model_io import saved_arrays, zeros_for
from tinytorch.perf.profiling.lines import tables_text
from tinytorch.perf.profiling.model_profile import (
    LossFunction,
    checked_module,
    example_of,
    made_by,
    profile_model,
    run_once,
)
from tinytorch.perf.profiling.profiler import Profiler
from tinytorch.perf.profiling.program import STDIN, ProgramProfile, profile_program
from tinytorch.perf.profiling.repeated import repeated, save_repeated
from tinytorch.perf.profiling.shares import recordings
from tinytorch.perf.profiling.torch_ops import torch_text

if TYPE_CHECKING:
    from tinytorch.perf.onnx import OnnxModel


def add(profile: Parser) -> None:
    """Add the command's options to its parser."""
    profile.add_argument(
        "model",
        metavar="WHAT",
        nargs="?",
        help="a script, such as train.py, with its own arguments behind it, a folder with a __main__.py, or - for "
        f"standard input; {', '.join(models.ZOO)}; a file of another framework (model.onnx); or module:factory, a "
        "function that returns a Module",
    )
    profile.add_argument("-m", dest="module", metavar="MODULE", help="a module, as `python -m` runs it")
    profile.add_argument("--seconds", type=float, metavar="S", help="stop a script after S seconds, and report on it")
    profile.add_argument("--batch", type=int, metavar="N", help="inputs at a time (default 1, or what a file fixes)")
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
        "--inputs",
        metavar="FILE.npz",
        help="arrays that numpy.savez wrote, in place of zeros: of a file by the names of its inputs",
    )
    profile.add_argument(
        "--beside",
        metavar="FLOAT.onnx",
        help="the file that a quantized one was made from: say what it saves and gains, and how far outputs differ",
    )
    profile.add_argument("--limit", type=int, default=10, metavar="N", help="ops to show (default 10)")
    profile.add_argument("--trace", metavar="FILE", help="write a timeline for https://ui.perfetto.dev")
    profile.add_argument("--json", metavar="FILE", help="write everything as JSON")
    profile.add_argument("--html", metavar="FILE", help="write a report as one page that needs no other file")
    profile.add_argument("--memory", action="store_true", help="run a script a second time, for its memory")
    profile.add_argument("--save", metavar="FILE", help="record it --repeats times more, for `tinytorch diff`")
    profile.add_argument("--repeats", type=int, default=12, metavar="N", help="runs that --save keeps (default 12)")
    profile.set_defaults(run=_run, arguments=[])


#: Operations whose tables take so long that a reader is told.
_MANY = 100_000
#: Options that name a file to write.
_FILES = ("--trace", "--json", "--html", "--save")


def own_part(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Return the command's arguments and, behind the name of a program, the program's own."""
    for index, argument in enumerate(arguments):
        if not index or arguments[0] != "profile":
            continue
        if argument == "-m":
            return list(arguments[: index + 2]), list(arguments[index + 2 :])
        if not _is_of(arguments[index - 1]) and _is_program(argument):
            return list(arguments[: index + 1]), list(arguments[index + 1 :])
    return list(arguments), []


def _is_program(what: str) -> bool:
    """Return whether it is a script, a folder of one, or standard input, and no model."""
    if what in models.ZOO or what.startswith("--"):
        return False
    path = Path(what)
    return what == STDIN or path.suffix in (".py", ".pyz") or path.is_dir() or (path.is_file() and not path.suffix)


def _is_of(option: str) -> bool:
    """Return whether what stands behind ``option`` is its value: of all but the flags."""
    return option.startswith("--") and "=" not in option and option not in ("--backward", "--memory")


def _run(chosen: argparse.Namespace) -> int:
    check_above_zero(chosen, "batch", "seq_len", "limit", "repeats")
    if chosen.seconds is not None and not chosen.seconds > 0:
        raise UsageError(f"--seconds must be above 0, not {chosen.seconds:g}")
    if (chosen.model is None) == (chosen.module is None):
        raise UsageError("WHAT must be a script, a model, or -m MODULE" + (", not both" if chosen.model else ""))
    for option in _FILES:
        name = option.removeprefix("--")
        check_folder(name, getattr(chosen, name))
        if getattr(chosen, name):  # of the folder where the command was given, wherever a script goes
            setattr(chosen, name, str(Path(getattr(chosen, name)).absolute()))
    if chosen.module or _is_program(chosen.model):
        return _run_script(chosen)
    try:
        return _run_model(chosen)
    except MemoryError as error:
        raise UsageError(f"--batch {chosen.batch} needs more memory than there is: give a smaller one") from error


def _run_script(chosen: argparse.Namespace) -> int:
    script = chosen.module or chosen.model
    for option in ("batch", "backward", "seq_len", "input_shape", "given", "inputs", "beside"):
        if getattr(chosen, option):
            raise UsageError(f"--{option.replace('_', '-')} is for a model, and {script} is a script")
    _tell_of_options(script, chosen.arguments)
    run = partial(profile_program, script, chosen.arguments, module=bool(chosen.module), seconds=chosen.seconds)
    done = run(chosen.memory)
    sys.stdout.flush()
    if (many := len(done.profiler.run.events)) >= _MANY:
        print(f"{many:,} operations ran: adding them up takes a while.", file=sys.stderr, flush=True)
    if chosen.html and done.ran_ops:
        _measure_ceilings()
    _write(chosen, done.name, done.profiler, done)
    if chosen.json:
        write_whole(chosen.json, json.dumps(done.to_json(), allow_nan=False))
    print_program(done, chosen.limit)
    if chosen.save:
        _save_script(chosen, done, run)
    if done.stopped and any(not one.daemon for one in threading.enumerate() if one is not threading.main_thread()):
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(done.exit_code)  # Python would wait for threads that nothing ends
    return done.exit_code


def _save_script(chosen: argparse.Namespace, done: ProgramProfile, run: Callable[[], ProgramProfile]) -> None:
    """Run the script again, several times, and keep what each run took; one that did not end well is not repeated."""
    if done.exit_code:
        print(f"note: {chosen.save} is not written, because the script did not end well", file=sys.stderr)
        return

    def record() -> list[Profile]:
        with redirect_stdout(io.StringIO()):  # it has said already what it says
            return [run().profiler.run for _ in range(chosen.repeats)]

    save_repeated(repeated(done.name, record), chosen.save)


def print_program(done: ProgramProfile, limit: int) -> None:
    """Print the tables of a program: of its lines, of PyTorch's operations, and of ours if it ran any."""
    print(tables_text(done.lines, limit))
    print(*done.notes, sep="\n")
    if done.torch_ops is not None and done.torch_ops.rows:
        print()
        print(torch_text(done.torch_ops, limit))
    if done.ran_ops:
        print()
        done.profiler.print_top_operations(limit)
        print()
        done.profiler.print_by_layer()


def _tell_of_options(script: str, arguments: Sequence[str]) -> None:
    """Say which options of the command stand behind the script, where they are the script's own."""
    if behind := [argument for argument in arguments if argument.partition("=")[0] in _FILES]:
        said = f"note: {', '.join(behind)} behind {script} is handed to it; options of `tinytorch profile` go before it"
        print(said, file=sys.stderr)


def _measure_ceilings() -> None:
    """Measure what this machine can do where that is not kept, which is told of, with how far it is on a terminal."""
    if store.kept_ceilings(thread_limit()) is not None:
        return
    print("Measuring first, once, what this machine can do: up to a minute.", file=sys.stderr, flush=True)
    with progress() as shown:
        task, told = shown.add_task("machine", total=1.0), set[str]()

        def tell(stage: str, part: float) -> None:
            shown.update(task, description=stage, completed=part, refresh=True)
            if stage not in told and shown.disable:
                print(f"  {part:.0%}: {stage}", file=sys.stderr, flush=True)
            told.add(stage)

        store.ceilings(thread_limit(), on_progress=tell)


def _write(
    chosen: argparse.Namespace, name: str, profiler: Profiler, program: ProgramProfile | None = None, **of_model: Any
) -> None:
    """Write the files that were asked for, of a script and of a model alike."""
    if chosen.trace:
        profiler.export_chrome_trace(chosen.trace, program.trace_events() if program else ())
    if chosen.html:
        from tinytorch.cli.program_report import html_report  # with what draws, which takes a second to load

        known = store.kept_ceilings(profiler.run.blas_threads)
        write_whole(chosen.html, html_report(name, profiler, known, program=program, **of_model))


def _run_model(chosen: argparse.Namespace) -> int:
    if chosen.memory:
        raise UsageError(f"--memory is for a script; of a model such as {chosen.model} memory is always followed")
    if chosen.seconds is not None:
        raise UsageError(f"--seconds is for a script, and {chosen.model} is a model")
    model, inputs, loss = _subject(chosen)
    if not chosen.backward or chosen.html:
        _measure_ceilings()
    from tinytorch.cli.model_report import beside, model_facts  # with what reads files and shows numbers

    compared = beside(model, inputs, chosen) if chosen.beside else []
    done = profile_model(model, inputs, chosen.model, chosen.backward, loss)
    facts = model_facts(done, model, inputs, chosen)
    _write(chosen, chosen.model, done.profiler, facts=facts, beside=compared, model=model)
    if chosen.save:
        with undisturbed(model):
            once = partial(run_once, model, inputs, chosen.backward, loss)
            mode = "forward and backward" if chosen.backward else "forward"
            setting = f"{mode}, input {inputs.dtype}{list(inputs.shape)}"
            made = repeated(chosen.model, partial(recordings, once, chosen.repeats), setting)
        save_repeated(made, chosen.save)
    if chosen.json:
        write_whole(chosen.json, json.dumps(done.to_json(), allow_nan=False))
    done.print_report(chosen.limit)
    for what, value in [*(fact for fact in facts if fact.what.startswith(("input", "stays"))), *compared]:
        print(f"{what}: {value}")
    return 0


def _subject(chosen: argparse.Namespace) -> tuple[Module, Tensor, LossFunction | None]:
    """Return the model, its input, and the loss if the zoo knows one."""
    if chosen.inputs and (chosen.input_shape or chosen.seq_len or chosen.batch):
        raise UsageError("--inputs has a shape already: --batch, --input-shape and --seq-len do not go with it")
    suffix = Path(chosen.model).suffix.lower()
    if suffix == ".onnx":
        from tinytorch.perf.onnx import from_onnx

        read = from_onnx(chosen.model, given=_given_numbers(chosen.given))
        chosen.batch = chosen.batch or read.example_batch
        return read, _file_input(read, chosen), None
    chosen.batch = chosen.batch or 1
    if suffix in _OTHERS:
        raise UsageError(f"{chosen.model} must be exported first: {_OTHERS[suffix]}")
    if chosen.given:
        raise UsageError(f"--given is for a file such as model.onnx, not for {chosen.model}")
    if chosen.model not in models.ZOO:
        if ":" not in chosen.model:
            known = f"a script such as train.py, one of {', '.join(models.ZOO)}, FILE.onnx, or module:factory"
            raise UsageError(f"WHAT must be {known}, not {chosen.model!r}")
        model = checked_module(made_by(chosen.model), chosen.model)
        return model, _given_input(model, chosen), None
    if chosen.inputs:
        raise UsageError(f"--inputs is for a file or module:factory; {chosen.model} of the zoo brings its own input")
    if chosen.input_shape:
        raise UsageError(f"--input-shape is for module:factory; {chosen.model} of the zoo brings its own input")
    entry = models.entry(chosen.model)
    check_batch("--batch", chosen.batch, entry.example_input(1).nbytes)
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


_TORCH = "in PyTorch, torch.onnx.export(model.eval(), (example,), 'model.onnx') writes a file that can be read"
#: Files of other formats, by suffix, and how a file that can be read is made of them.
_OTHERS = {
    **dict.fromkeys((".pt", ".pth", ".ckpt", ".safetensors"), _TORCH),
    **dict.fromkeys((".h5", ".keras"), "in Keras, model.export('model.onnx', format='onnx') writes what can be read"),
    ".tflite": "tf2onnx writes a .onnx file of it",
}


def _file_arrays(model: OnnxModel, path: str) -> Tensor:
    """Return the first input of a file from ``--inputs``, and have the others stand for those that are left out."""
    arrays, names = saved_arrays(path, "--inputs"), [each.name for each in model.inputs]
    if set(arrays) != set(names):
        raise UsageError(f"--inputs must hold the inputs {', '.join(names)}, and {path} holds {', '.join(arrays)}")
    model.stand_ins = {name: arrays[name] for name in names[1:]}
    return Tensor(arrays[names[0]])


def _file_input(model: OnnxModel, chosen: argparse.Namespace) -> Tensor:
    """Return the first input of a file: of ``--inputs``, or zeros of its shape or of the one that is asked for."""
    if chosen.inputs:
        return _file_arrays(model, chosen.inputs)
    numbers = [each.name for each in model.inputs[1:] if each.shape in ((), (1,)) and "mask" not in each.name.lower()]
    if numbers:
        said = " ".join(f"--given {name}=NUMBER" for name in numbers)
        print(f"note: {', '.join(numbers)} of {chosen.model} is 0 unless it is given: {said}", file=sys.stderr)
    if chosen.input_shape:
        return _given_input(model, chosen)
    fixed = [length for length in model.inputs[0].shape[1:] if isinstance(length, int)]
    check_batch("--batch", chosen.batch, model.inputs[0].dtype.itemsize * math.prod(fixed) * (chosen.seq_len or 1))
    if chosen.seq_len is None:
        return model.example(chosen.batch)[0]
    if len(model.inputs[0].shape) != 2:
        raise UsageError(f"--seq-len needs an input of shape (batch, positions), not {model.inputs[0].described()}")
    return zeros_for(model, (chosen.batch, chosen.seq_len))


def _given_input(model: Module, chosen: argparse.Namespace) -> Tensor:
    """Return ``--inputs``, zeros of ``--input-shape``, or rows of its ``example_input``: ``--batch`` of them."""
    if chosen.inputs:
        arrays = saved_arrays(chosen.inputs, "--inputs")
        if len(arrays) != 1:
            raise UsageError(f"--inputs must hold one array for {chosen.model}, not {len(arrays)}")
        return Tensor(next(iter(arrays.values())))
    if chosen.input_shape:
        if chosen.seq_len is not None:
            raise UsageError("--seq-len and --input-shape exclude each other: the shape holds the positions")
        shape = sizes("--input-shape", chosen.input_shape)
        check_batch("--batch", chosen.batch, 4 * math.prod(shape))
        return example_of(model, chosen.model, chosen.batch, shape)
    if isinstance(one := getattr(model, "example_input", None), (Tensor, np.ndarray)) and one.size:
        check_batch("--batch", chosen.batch, one.nbytes // len(one.data))
    inputs = example_of(model, chosen.model, chosen.batch)
    if chosen.seq_len is None:
        return inputs
    if inputs.ndim != 2:
        raise UsageError(f"--seq-len needs an example_input of shape (batch, positions), not {inputs.shape}")
    return Tensor(_positions(inputs.data, chosen.seq_len))
