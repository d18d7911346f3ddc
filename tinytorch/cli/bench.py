"""``tinytorch bench``: measure a suite, or a model of one's own, and keep the results."""

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from rich.progress import MofNCompleteColumn

from tinytorch import models
from tinytorch.cli.report import conditions, performance_rows
from tinytorch.cli.usage import INTERRUPTED, Parser, UsageError, check_batch, check_folder, progress, sizes
from tinytorch.perf.benchmarking import Results, load_results, save_results
from tinytorch.perf.benchmarking.performance import compare_with_first
from tinytorch.perf.benchmarking.results import Plan
from tinytorch.perf.benchmarking.running import Side, continued, run, started
from tinytorch.perf.benchmarking.zoo import subject_of
from tinytorch.report import tables
from tinytorch.report.provenance import package_provenance


def add(bench: Parser) -> None:
    """Add the command's options to its parser."""
    subject = bench.add_mutually_exclusive_group()
    subject.add_argument(
        "--suite",
        default="mlp",
        choices=[*models.ZOO],
        metavar="NAME",
        help=f"name of a model of the book, of which all variants are measured: {', '.join(models.ZOO)} (default mlp)",
    )
    subject.add_argument(
        "--model",
        metavar="MODULE:FACTORY",
        action="append",
        help="function that returns a Module or a dict of named Modules, or a file such as model.onnx; repeat the "
        "option to compare several files in ONNX Runtime, whose measurements are then interleaved",
    )
    bench.add_argument("--json", metavar="FILE", required=True, help="result file, updated when each process finishes")
    bench.add_argument(
        "--batches", metavar="SIZES", help="batch sizes (default 1,64, or the batch size that a model file fixes)"
    )
    bench.add_argument(
        "--input-shape",
        metavar="SHAPE",
        help="shape of one example, without the batch axis, such as 1,28,28 (for --model)",
    )
    bench.add_argument(
        "--data",
        metavar="FILE.npz",
        help="arrays `inputs` and `labels` (or `outputs`), to measure the accuracy of --model",
    )
    bench.add_argument("--plan", action="store_true", help="also measure the model after plan() has compiled it")
    bench.add_argument("--processes", type=int, default=12, metavar="N", help="number of fresh processes (default 12)")
    bench.add_argument(
        "--repeats", type=int, default=200, metavar="N", help="maximum number of samples per process (default 200)"
    )
    bench.add_argument(
        "--at-most-seconds",
        type=float,
        default=5.0,
        metavar="SECONDS",
        help="time limit for each batch size, in seconds (default 5)",
    )
    bench.add_argument(
        "--threads", type=int, default=1, metavar="N", help="number of threads for BLAS and kernels (default 1)"
    )
    bench.add_argument(
        "--seed", type=int, default=0, metavar="N", help="random seed for the order of measurements (default 0)"
    )
    bench.add_argument(
        "--resume", action="store_true", help="continue the interrupted run whose results are in the --json file"
    )
    bench.add_argument(
        "--base", metavar="FOLDER", help="second checkout of the package; the measurements of both are interleaved"
    )
    bench.add_argument("--base-json", metavar="FILE", help="file for the results of --base")
    bench.set_defaults(run=_run)


def _run(chosen: argparse.Namespace) -> int:
    try:
        return _measure(chosen)
    except KeyboardInterrupt:
        print(f"tinytorch bench: interrupted; --resume continues the run in {chosen.json}", file=sys.stderr)
        return INTERRUPTED


def _measure(chosen: argparse.Namespace) -> int:
    if chosen.model is not None and len(chosen.model) > 1:
        if others := [each for each in chosen.model if Path(each).suffix.lower() != ".onnx"]:
            raise UsageError(f"if --model is repeated, each must be a file such as model.onnx, not {', '.join(others)}")
        if chosen.plan:
            raise UsageError(
                "--plan needs a single --model, because several files run in ONNX Runtime, which has no plans"
            )
    chosen.files = chosen.model if chosen.model is not None and len(chosen.model) > 1 else []
    chosen.model = None if chosen.model is None else ", ".join(chosen.model)
    _check(chosen)
    plan = _plan(chosen)
    sides = [_side(plan, chosen.json, None, chosen.resume)]
    if chosen.base:
        sides.append(_side(plan, chosen.base_json, Path(chosen.base).resolve(), chosen.resume))
    with _progress(plan.subject) as told:
        subject_of(plan)  # trains what has to be, and finds what is wrong with a model
        done = run(sides, told)
    _print(done[0])
    return 0


def _check(chosen: argparse.Namespace) -> None:
    if bool(chosen.base) != bool(chosen.base_json):
        raise UsageError(
            "--base and --base-json must be given together: the other checkout, and the file for its results"
        )
    for option in ("json", "base_json"):
        check_folder(option.replace("_", "-"), getattr(chosen, option))
    if chosen.base and not (Path(chosen.base) / "tinytorch").is_dir():
        raise UsageError(f"--base {chosen.base} must be a checkout with the folder tinytorch")


def _plan(chosen: argparse.Namespace) -> Plan:
    shape = None if chosen.input_shape is None else sizes("--input-shape", chosen.input_shape)
    if shape is not None and chosen.model is None:
        raise UsageError("--input-shape needs --model, because a suite has its own inputs")
    if chosen.model is None and (chosen.data or chosen.plan):
        raise UsageError("--data and --plan need --model, because a suite has its own data and variants")
    if shape is not None and chosen.data:
        raise UsageError("--input-shape cannot be combined with --data, which has its own inputs")
    batches = tuple(sorted(set(sizes("--batches", chosen.batches or _batches(chosen.model, chosen.files)))))
    if chosen.model is None:
        check_batch("--batches", max(batches), models.entry(chosen.suite).example_input(1).nbytes)
    return Plan(
        chosen.model or chosen.suite,
        batches,
        chosen.processes,
        chosen.repeats,
        chosen.at_most_seconds,
        chosen.threads,
        chosen.seed,
        shape,
        None if chosen.data is None else str(Path(chosen.data).resolve()),
        chosen.plan,
        tuple(chosen.files),
    )


def _batches(model: str | None, files: Sequence[str]) -> str:
    """Return the batch sizes if none are given: the one that a file fixes, otherwise 1 and 64."""
    if files:
        import onnx

        first = onnx.load(files[0], load_external_data=False).graph.input[0]
        lengths = first.type.tensor_type.shape.dim
        return str(lengths[0].dim_value) if lengths and lengths[0].dim_value else "1,64"
    if model is not None and Path(model).suffix.lower() == ".onnx":
        from tinytorch.perf.onnx import from_onnx

        read = from_onnx(model)
        if read.inputs[0].shape[:1] == (read.example_batch,):
            return str(read.example_batch)
    return "1,64"


def _side(plan: Plan, path: str, folder: Path | None, resume: bool) -> Side:
    """Return what is to be measured and kept at ``path``: from the start, or from where it was interrupted."""
    code = package_provenance(folder / "tinytorch" if folder else None)

    def keep(results: Results) -> None:
        save_results(results, path)

    if resume and Path(path).exists():
        return Side(continued(load_results(path), plan, code), keep, folder)
    return Side(started(plan, code), keep, folder)


@contextmanager
def _progress(subject: str) -> Iterator[Callable[[int, int], None]]:
    """Give a function that shows how many processes are done: a bar on a terminal, nothing in a log."""
    with progress(MofNCompleteColumn()) as shown:
        task = shown.add_task(subject)
        yield lambda done, planned: shown.update(task, completed=done, total=planned, refresh=True)


def _print(results: Results) -> None:
    rows, columns = performance_rows(results.performances)
    print(tables.to_text(rows, columns, caption="\n".join([*_untold(results), *conditions(results)])))


def _untold(results: Results) -> list[str]:
    """Return why a variant's speed is left open or withheld, one line a reason."""
    if len(results.performances) < 2:
        return []
    names: dict[str, list[str]] = {}
    for name, change in compare_with_first(results.performances).items():
        if not change.speedup.verdict.is_decided:
            names.setdefault(change.speedup.because, []).append(name)
    return [f"open for {', '.join(each)}: {reason}" for reason, each in names.items()]
