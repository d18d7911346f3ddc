"""``tinytorch profile``: where the time, arithmetic and memory of a model or of a whole script go."""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tinytorch import models
from tinytorch.cli.usage import Parser, UsageError, check_above_zero, check_batch, check_folder, progress, sizes
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.core.undisturbed import undisturbed
from tinytorch.perf.host.blas import thread_limit
from tinytorch.perf.host.identity import machine_label
from tinytorch.perf.machine import store
from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.perf.measuring.model_io import saved_arrays, zeros_for
from tinytorch.perf.profiling.inside import STDIN
from tinytorch.perf.profiling.model_profile import (
    LossFunction,
    checked_module,
    example_of,
    made_by,
    profile_model,
    run_once,
)
from tinytorch.perf.profiling.program import ProgramProfile, profile_process, profile_program
from tinytorch.perf.profiling.repeated import REPEATED, RunTimes, repeated, repeated_program
from tinytorch.perf.profiling.shares import recordings

if TYPE_CHECKING:
    from tinytorch.perf.onnx import OnnxModel


def add(profile: Parser) -> None:
    """Add the command's options to its parser."""
    profile.add_argument(
        "model",
        metavar="TARGET",
        nargs="?",
        help="what to profile: a script and its arguments, such as train.py --lr 0.1; a folder with a __main__.py; - "
        f"for a script on standard input; a model of the book ({', '.join(models.ZOO)}); a model file, such as "
        "model.onnx; or module:factory, a function that returns a Module",
    )
    profile.add_argument("-m", dest="module", metavar="MODULE", help="module to run as a script, as with `python -m`")
    profile.add_argument(
        "--pid",
        type=int,
        metavar="PID",
        help="process ID of a running program, profiled until it ends or you press Ctrl-C",
    )
    profile.add_argument(
        "--seconds",
        type=float,
        metavar="SECONDS",
        help="time in seconds after which the script is stopped and the report is printed",
    )
    profile.add_argument(
        "--batch", type=int, metavar="N", help="batch size (default 1, or the batch size that a model file fixes)"
    )
    profile.add_argument("--backward", action="store_true", help="also profile the backward pass")
    profile.add_argument(
        "--seq-len", type=int, metavar="T", help="number of tokens per sequence, for a model that reads tokens"
    )
    profile.add_argument(
        "--input-shape",
        metavar="SHAPE",
        help="shape of one example, without the batch axis, such as 1,28,28; required if the module has no "
        "example_input, or if the model file does not fix the shape",
    )
    profile.add_argument(
        "--given",
        metavar="NAME=NUMBER",
        action="append",
        default=[],
        help="value for an input that is a setting rather than data, such as rate=16000; can be repeated",
    )
    profile.add_argument(
        "--inputs",
        metavar="FILE.npz",
        help=".npz file with the inputs, instead of synthetic ones; for an ONNX file, name each array after the input "
        "that it is for",
    )
    profile.add_argument(
        "--beside",
        metavar="OTHER.onnx",
        help="second ONNX file with the same inputs, such as the original of a quantized file; the report compares "
        "size, time in ONNX Runtime, and outputs",
    )
    profile.add_argument(
        "--engine",
        choices=("onnxruntime", "tinytorch"),
        help="program that runs an ONNX file: ONNX Runtime, or this package, which also runs the backward pass "
        "(default onnxruntime)",
    )
    profile.add_argument(
        "--threads", type=int, metavar="N", help="number of threads of ONNX Runtime (default 1 per core)"
    )
    profile.add_argument(
        "--optimization",
        choices=("none", "basic", "extended", "all"),
        help="level of ONNX Runtime's graph optimizations (default all)",
    )
    profile.add_argument(
        "--provider",
        metavar="NAME",
        action="append",
        help="execution provider of ONNX Runtime; can be repeated, the preferred one first (default "
        "CPUExecutionProvider)",
    )
    profile.add_argument(
        "--axis",
        metavar="NAME=N",
        action="append",
        default=[],
        help="length of a dynamic axis of an ONNX file, such as sequence=128; can be repeated",
    )
    profile.add_argument(
        "--limit", type=int, default=10, metavar="N", help="number of rows to show in a table (default 10)"
    )
    profile.add_argument("--trace", metavar="FILE", help="write a timeline for https://ui.perfetto.dev")
    profile.add_argument("--json", metavar="FILE", help="write all results as JSON")
    profile.add_argument("--html", metavar="FILE", help="write the report to a self-contained HTML file")
    profile.add_argument(
        "--ops", action="store_true", help="run the script once more to record its operations, FLOPs and modules"
    )
    profile.add_argument(
        "--memory", action="store_true", help="run the script once more to record the memory of its arrays"
    )
    profile.add_argument(
        "--save", metavar="FILE", help="run the script --repeats more times, and save the profile for `tinytorch diff`"
    )
    profile.add_argument(
        "--repeats", type=int, default=12, metavar="N", help="number of runs that --save records (default 12)"
    )
    profile.set_defaults(run=_run, arguments=[])


#: Operations whose tables take so long that a reader is told.
_MANY = 100_000
#: Options of a file in ONNX Runtime.
_OF_RUNTIME = ("engine", "threads", "optimization", "provider", "axis")
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
    return option.startswith("--") and "=" not in option and option not in ("--backward", "--ops", "--memory")


def _run(chosen: argparse.Namespace) -> int:
    check_above_zero(chosen, "batch", "seq_len", "limit", "repeats", "threads")
    if chosen.seconds is not None and not chosen.seconds > 0:
        raise UsageError(f"--seconds must be above 0, not {chosen.seconds:g}")
    given = [one for one in (chosen.model, chosen.module, chosen.pid) if one is not None]
    if len(given) != 1:
        raise UsageError("give a script, a model, -m MODULE or --pid PID" + (", and only one of them" if given else ""))
    for option in _FILES:
        name = option.removeprefix("--")
        check_folder(name, getattr(chosen, name))
        if getattr(chosen, name):  # of the folder where the command was given, wherever a script goes
            setattr(chosen, name, str(Path(getattr(chosen, name)).absolute()))
    if chosen.pid is not None or chosen.module or _is_program(chosen.model):
        return _run_script(chosen)
    try:
        return _run_model(chosen)
    except MemoryError as error:
        raise UsageError(f"--batch {chosen.batch} needs more memory than is free: give a smaller number") from error


def _run_script(chosen: argparse.Namespace) -> int:
    script = chosen.module or chosen.model or f"process {chosen.pid}"
    for option in ("batch", "backward", "seq_len", "input_shape", "given", "inputs", "beside", *_OF_RUNTIME):
        if getattr(chosen, option):
            raise UsageError(f"--{option.replace('_', '-')} needs a model, but {script} is a script")
    again = [option for option in ("ops", "memory", "save") if getattr(chosen, option)]
    if again and (chosen.pid is not None or (script == STDIN and "save" in again)):
        what = "a program that runs already" if chosen.pid is not None else "a program from standard input"
        raise UsageError(f"--{again[0]} needs a second run, but {what} runs only once: give a script")
    if chosen.pid is not None:
        done = profile_process(chosen.pid, chosen.seconds)
    else:
        _tell_of_options(script, chosen.arguments)
        run = partial(profile_program, script, chosen.arguments, module=bool(chosen.module), seconds=chosen.seconds)
        done = run(ops=chosen.ops, memory=chosen.memory)
    print_program(done, chosen.limit)
    if sys.stdout is not None:
        sys.stdout.flush()
    written = _write_program(chosen, done)
    if chosen.save:
        _save_script(chosen, done, run)
    if done.exit_code - 128 in {getattr(signal, name, None) for name in _FAULTS}:
        _end_by(done.exit_code - 128)
    return done.exit_code or (0 if written else 2)


#: Signals of faults, which end this command as they ended the program.
_FAULTS = ("SIGABRT", "SIGSEGV", "SIGBUS", "SIGFPE", "SIGILL", "SIGKILL")


def _end_by(number: int) -> None:
    """End this process by a signal, without a file of what it held."""
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if number != signal.SIGKILL:
        signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _write_program(chosen: argparse.Namespace, done: ProgramProfile) -> bool:
    """Write the files that were asked for, each by itself; return whether all could be written."""
    inside = done.inside
    ops = inside.profiler if inside is not None and inside.ran_ops else None

    def trace() -> None:
        if ops is not None:
            ops.export_chrome_trace(chosen.trace, done.trace_events())
        else:
            events = {"traceEvents": [*done.trace_events()], "displayTimeUnit": "ms"}
            write_whole(chosen.trace, json.dumps(events))

    def html() -> None:
        from tinytorch.cli.program_report import html_report  # with what draws, which takes a second to load

        if ops is not None:
            _measure_ceilings()
        known = store.kept_ceilings(ops.run.blas_threads) if ops is not None else None
        profiler = inside.profiler if inside is not None else None
        write_whole(chosen.html, html_report(done.name, profiler, known, program=done))

    def as_json() -> None:
        write_whole(chosen.json, json.dumps(done.to_json(), allow_nan=False))

    well = True
    for path, write in ((chosen.trace, trace), (chosen.html, html), (chosen.json, as_json)):
        if path:
            try:
                write()
            except OSError as error:
                well = False
                print(f"tinytorch profile: {path} could not be written: {error.strerror or error}", file=sys.stderr)
    return well


def _save_script(chosen: argparse.Namespace, done: ProgramProfile, run: Callable[..., ProgramProfile]) -> None:
    """Run the script again, several times, and keep what each run took, if all ended as the first."""
    if done.exit_code or done.lines is None:
        why = "the script did not end well" if done.exit_code else "the system lets nobody look at it"
        print(f"note: {chosen.save} was not written, because {why}", file=sys.stderr)
        return

    def record() -> list[RunTimes]:
        times = []
        for number in range(chosen.repeats):
            again = run(quiet=True)  # it has said already what it says
            if again.exit_code != done.exit_code:
                raise UsageError(
                    f"--save {chosen.save} is not written: run {number + 2} of the script ended with exit code "
                    f"{again.exit_code}, and the first with {done.exit_code}"
                )
            times.append(again.times())
        return times

    setting = f"a script, arguments: {' '.join(chosen.arguments) or 'none'}"
    made = repeated_program(done.name, record, setting)
    REPEATED.write(chosen.save, made, machine_label())


def print_program(done: ProgramProfile, limit: int) -> None:
    """Print the tables of a program: of its lines or calls, and what runs from inside have recorded."""
    from tinytorch.cli.program_tables import NEVER_SEEN, recorded_by_torch, seen_from_outside, table_text

    inside = done.inside
    if done.lines is not None and not done.lines.effective_looks:
        print(NEVER_SEEN)
    else:
        print(*(table_text(table, limit) for table in seen_from_outside(done)), sep="\n\n")
    print("", *done.notes, sep="\n")
    if inside is None or done.lines is None:
        return
    print("\nfrom inside, in a separate run:", *inside.remarks, sep="\n")
    if inside.torch_rows:
        print()
        print(table_text(recorded_by_torch(inside), limit))
    if inside.profiler is not None and inside.ran_ops:
        print()
        inside.profiler.print_top_operations(limit)
        print()
        inside.profiler.print_by_layer()
    elif inside.timed and not inside.torch_rows:
        print("no operation of this package or of PyTorch ran")
    if inside.has_memory and inside.profiler is not None:
        memory = inside.profiler.memory
        print(f"arrays held {memory.peak / 2**20:,.2f} MiB at the peak" if memory.steps else "no array was followed")


def _tell_of_options(script: str, arguments: Sequence[str]) -> None:
    """Say which options of the command stand behind the script, where they are the script's own."""
    if behind := [argument for argument in arguments if argument.partition("=")[0] in _FILES]:
        said = f"note: {', '.join(behind)} behind {script} is handed to it; options of `tinytorch profile` go before it"
        print(said, file=sys.stderr)


def _measure_ceilings(threads: int | None = None) -> None:
    """Measure what this machine can do where that is not kept, which is told of, with how far it is on a terminal."""
    threads = threads or thread_limit()
    if store.kept_ceilings(threads) is not None:
        return
    print("Measuring the ceilings of this machine first, once. This takes up to a minute.", file=sys.stderr, flush=True)
    with progress() as shown:
        task, told = shown.add_task("machine", total=1.0), set[str]()

        def tell(stage: str, part: float) -> None:
            shown.update(task, description=stage, completed=part, refresh=True)
            if stage not in told and shown.disable:
                print(f"  {part:.0%}: {stage}", file=sys.stderr, flush=True)
            told.add(stage)

        store.ceilings(threads, on_progress=tell)


def _run_model(chosen: argparse.Namespace) -> int:
    for option, what in (("memory", "memory is always followed"), ("ops", "operations are always recorded")):
        if getattr(chosen, option):
            raise UsageError(f"--{option} is for a script; of a model such as {chosen.model} {what}")
    if chosen.seconds is not None:
        raise UsageError(f"--seconds needs a script, but {chosen.model} is a model")
    is_file = Path(chosen.model).suffix.lower() == ".onnx"
    if is_file and chosen.engine != "tinytorch":
        from tinytorch.cli.runtime_report import run  # with what draws and shows numbers, which takes a second to load

        return run(chosen, _given_numbers(chosen.given), _measure_ceilings)
    for option in ("beside", *_OF_RUNTIME):
        if getattr(chosen, option) and not is_file:
            raise UsageError(f"--{option} needs an ONNX file, but {chosen.model} is not one")
        if getattr(chosen, option) and option != "engine":
            raise UsageError(f"--{option} is for ONNX Runtime: it cannot be combined with --engine tinytorch")
    model, inputs, loss = _subject(chosen)
    if not chosen.backward or chosen.html:
        _measure_ceilings()
    from tinytorch.cli.model_report import model_facts  # with what reads files and shows numbers

    done = profile_model(model, inputs, chosen.model, chosen.backward, loss)
    facts = model_facts(done, model, inputs, chosen)
    if chosen.trace:
        done.profiler.export_chrome_trace(chosen.trace)
    if chosen.html:
        from tinytorch.cli.program_report import html_report  # with what draws, which takes a second to load

        known = store.kept_ceilings(done.profiler.run.blas_threads)
        shown = html_report(chosen.model, done.profiler, known, facts=facts, model=model)
        write_whole(chosen.html, shown)
    if chosen.save:
        with undisturbed(model):
            once = partial(run_once, model, inputs, chosen.backward, loss)
            mode = "forward and backward" if chosen.backward else "forward"
            setting = f"{mode}, input {inputs.dtype}{list(inputs.shape)}"
            made = repeated(chosen.model, partial(recordings, once, chosen.repeats), setting)
        REPEATED.write(chosen.save, made, machine_label())
    if chosen.json:
        write_whole(chosen.json, json.dumps(done.to_json(), allow_nan=False))
    done.print_report(chosen.limit)
    for what, value in [fact for fact in facts if fact.what.startswith(("input", "stays"))]:
        print(f"{what}: {value}")
    return 0


def _subject(chosen: argparse.Namespace) -> tuple[Module, Tensor, LossFunction | None]:
    """Return the model, its input, and the loss if the zoo knows one."""
    if chosen.inputs and (chosen.input_shape or chosen.seq_len or chosen.batch):
        raise UsageError(
            "--inputs cannot be combined with --batch, --input-shape or --seq-len: its arrays have their shapes"
        )
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
        raise UsageError(f"--given needs a file such as model.onnx, not {chosen.model}")
    if chosen.model not in models.ZOO:
        if ":" not in chosen.model:
            known = f"a script such as train.py, one of {', '.join(models.ZOO)}, FILE.onnx, or module:factory"
            raise UsageError(f"TARGET must be {known}, not {chosen.model!r}")
        model = checked_module(made_by(chosen.model), chosen.model)
        return model, _given_input(model, chosen), None
    if chosen.inputs:
        raise UsageError(f"--inputs needs a file or module:factory, because {chosen.model} has its own input")
    if chosen.input_shape:
        raise UsageError(f"--input-shape needs module:factory, because {chosen.model} has its own input")
    entry = models.entry(chosen.model)
    check_batch("--batch", chosen.batch, entry.example_input(1).nbytes)
    inputs, targets = entry.example_input(chosen.batch), entry.example_target(chosen.batch)
    if chosen.seq_len is not None:
        if inputs.dtype.kind not in "iu":
            raise UsageError(f"--seq-len needs a model that reads tokens, but {chosen.model} does not")
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
        print(f"note: {', '.join(numbers)} of {chosen.model} is 0 unless you give it: {said}", file=sys.stderr)
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
            raise UsageError("--seq-len and --input-shape exclude each other: the shape has the number of positions")
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
