"""An ONNX file in ONNX Runtime, in processes of its own: its latency, and what its profiler says of each node.

    python -m tinytorch.perf.onnx.runtime FOLDER

is such a process. It reads one JSON object a line and answers each with one. A file that brings ONNX Runtime down ends
this process alone, and threads that ONNX Runtime keeps busy between calls disturb nothing that others time.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import IO, Any

import numpy as np

from tinytorch.core.module import Module
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import Measurement, sample
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.measuring.codec import from_json, to_json
from tinytorch.perf.measuring.conditions import Conditions, of_all

#: Optimization levels by the names that ONNX Runtime's documentation gives them.
LEVELS = {"none": "DISABLE_ALL", "basic": "ENABLE_BASIC", "extended": "ENABLE_EXTENDED", "all": "ENABLE_ALL"}
CPU = "CPUExecutionProvider"
#: Before each turn a file runs for this long untimed, in seconds: others had the caches and the cores.
_LEAD_IN_SECONDS = 0.02
#: Nodes of the two chains whose difference says what a node and its record cost, and the rounds in which they run.
_SHORT, _LONG, _CHAIN_ROUNDS = 20, 220, 25
#: Runs of a file on new inputs before anything is timed.
_FIRST_RUNS = 3


class RefusedError(ValueError):
    """ONNX Runtime does not load or run a file; the message has its reason in one sentence."""


@dataclass(frozen=True)
class Settings:
    """How a file runs: threads of a node, optimization level (of `LEVELS`), and providers, the preferred one first."""

    threads: int
    level: str = "all"
    providers: tuple[str, ...] = (CPU,)


@dataclass(frozen=True)
class Declared:
    """An input as ONNX Runtime declares it: its type, such as "tensor(float)", and lengths, open ones named or None."""

    name: str
    type: str
    shape: tuple[int | str | None, ...]

    def __str__(self) -> str:
        lengths = ", ".join("?" if each is None else str(each) for each in self.shape)
        return f"{self.name} ({lengths}) of {self.type}"


def default_threads() -> int:
    """Return the threads that ONNX Runtime takes by itself: one for each physical core that this process may use."""
    import psutil

    return min(psutil.cpu_count(logical=False) or 1, len(usable_cores()))


class File:
    """A file that ONNX Runtime has loaded in a process of its own.

    Args:
        path: of the file.
        settings: how it runs.
        folder: for what the process writes.
        profiled: whether ONNX Runtime's profiler is on; `events` then has what it recorded.
        dump: whether the graph as ONNX Runtime runs it is written to `graph`.

    Attributes:
        inputs: those that the file declares.
        held: bytes by which the process grew while it loaded the file.
        seconds: that loading took.

    Raises:
        RefusedError: if ONNX Runtime refuses the file.
        RuntimeError: if ONNX Runtime is not installed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        settings: Settings,
        folder: str | os.PathLike[str],
        *,
        profiled: bool = False,
        dump: bool = False,
    ) -> None:
        self._name, self._folder = Path(path).name, Path(folder)
        self._errors: IO[bytes] = TemporaryFile()  # noqa: SIM115 - closed by __exit__
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
        )
        try:
            self.graph = self._folder / f"graph-{self._process.pid}.onnx"
            said = self._ask(
                "load",
                path=os.path.abspath(path),
                settings=asdict(settings),
                profiled=profiled,
                dump=str(self.graph) if dump else None,
            )
        except BaseException:
            self.__exit__(None, None, None)
            raise
        self.inputs = [Declared(name, kind, tuple(shape)) for name, kind, shape in said["inputs"]]
        self._turns: list[tuple[float, ...]] = []
        self.held, self.seconds = int(said["held"]), float(said["seconds"])

    def __enter__(self) -> File:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.communicate()
        self._errors.close()

    def _ask(self, what: str, **asked: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"what": what, **asked}) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            code = self._process.wait()
            self._errors.seek(0)
            lines = self._errors.read().decode(errors="replace").strip().splitlines()
            line = json.dumps({"refused": f"its process ended with exit code {code}{f': {lines[-1]}' * bool(lines)}"})
        said: dict[str, Any] = json.loads(line)
        if "missing" in said:
            raise RuntimeError(said["missing"])
        if "refused" in said:
            raise RefusedError(f"ONNX Runtime refuses {self._name}: {said['refused']}")
        return said

    def feed(self, feeds: Mapping[str, Array]) -> float:
        """Set the inputs of all runs from now on, run three times, and return the seconds of the fastest run.

        Raises:
            RefusedError: if the file does not run on them.
        """
        path = self._folder / f"feeds-{self._process.pid}.npz"
        _save(path, feeds.values())
        return float(self._ask("feed", path=str(path), names=list(feeds))["seconds"])

    def turn(self, runs: int) -> Measurement:
        """Return the seconds of ``runs`` runs, after some that are not timed."""
        said = self._ask("turn", runs=runs)
        return Measurement(self._name, tuple(said["seconds"]), "s", from_json(said["conditions"], Conditions, "turn"))

    def record(self, runs: int) -> None:
        """Run ``runs`` times with the profiler on, for `events`."""
        self._turns.append(tuple(self._ask("record", runs=runs)["seconds"]))

    def outputs(self) -> dict[str, Array]:
        """Return what the file makes of its inputs, by name; what is no array of numbers is left out."""
        path = self._folder / f"outputs-{self._process.pid}.npz"
        names = self._ask("outputs", path=str(path))["names"]
        with np.load(path) as arrays:
            return {name: arrays[f"_{at}"] for at, name in enumerate(names)}

    def grown(self) -> int:
        """Return the most bytes by which the process grew since before it loaded the file."""
        return int(self._ask("grown")["bytes"])

    def events(self) -> list[dict[str, Any]]:
        """End the profiler and return its events, of all runs."""
        self.events_path = Path(self._ask("events")["path"])
        events: list[dict[str, Any]] = json.loads(self.events_path.read_bytes())
        return events

    def recorded(self, events: Sequence[Mapping[str, Any]], bodies: frozenset[str]) -> list[Recorded]:
        """Return what `events` hold of each call of `record`; ``bodies`` are names of nodes that have a body."""
        return recorded_turns(runs_of(events, bodies)[_FIRST_RUNS:], self._turns)

    def calibration(self) -> Calibration:
        """Return what nodes and their records cost with the settings of this file."""
        said = self._ask("calibrate")
        return Calibration(tuple(said["node"]), said["record"], said["outside"])


def file_bytes(path: str | os.PathLike[str]) -> int:
    """Return the size of a file in bytes, together with the files of external data that its tensors name."""
    import onnx

    def tensors(graph: Any) -> Iterator[Any]:
        yield from graph.initializer
        for each in graph.sparse_initializer:
            yield from (each.values, each.indices)
        for attribute in (attribute for node in graph.node for attribute in node.attribute):
            yield from (attribute.t, *attribute.tensors)
            for inner in (attribute.g, *attribute.graphs):
                yield from tensors(inner)

    named = onnx.load(os.fspath(path), load_external_data=False)
    beside = {
        Path(path).parent / entry.value
        for tensor in tensors(named.graph)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        for entry in tensor.external_data
        if entry.key == "location"
    }
    return sum(each.stat().st_size for each in (Path(path), *beside))


class RuntimeModel(Module):
    """A file in ONNX Runtime as a module of its first input, for what measures modules; it runs in this process.

    Args:
        path: of the file.
        threads: of ONNX Runtime.
        others: called with the inputs that the file declares and a batch; returns all of them.

    Attributes:
        file_bytes: those of the function `file_bytes`.

    Raises:
        ValueError: if ONNX Runtime refuses the file.
        RuntimeError: if ONNX Runtime or the package onnx is not installed.
    """

    def __init__(
        self, path: str | os.PathLike[str], threads: int, others: Callable[[Sequence[Declared], int], dict[str, Array]]
    ) -> None:
        try:
            import onnx  # noqa: F401 - for file_bytes
            import onnxruntime
        except ImportError as error:
            raise RuntimeError(f"{error.name} is not installed: pip install onnx onnxruntime") from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads, options.log_severity_level = threads, 4
        try:
            self._session: Any = onnxruntime.InferenceSession(os.fspath(path), options, providers=[CPU])
        except Exception as error:  # of ONNX Runtime, which raises what it likes
            raise RefusedError(f"ONNX Runtime refuses {Path(path).name}: {reason(str(error))}") from error
        self.inputs = [Declared(each.name, each.type, tuple(each.shape)) for each in self._session.get_inputs()]
        self._others = others
        self._feeds: dict[int, dict[str, Array]] = {}
        self.file_bytes = file_bytes(path)

    def __deepcopy__(self, memo: dict[int, Any]) -> RuntimeModel:
        """Return itself: a session cannot be copied."""
        del memo
        return self

    def example(self) -> Tensor:
        """Return a first input of batch 1."""
        return Tensor(self._others(self.inputs, 1)[self.inputs[0].name])

    def forward(self, x: Tensor) -> Tensor:
        """Return the first output for the first input; others are as ``others`` makes them."""
        batch = len(x.data) if x.ndim else 1
        if batch not in self._feeds:
            self._feeds[batch] = self._others(self.inputs, batch)
        return Tensor(self._session.run(None, {**self._feeds[batch], self.inputs[0].name: x.data})[0])


@dataclass(frozen=True)
class Calibration:
    """What nodes that do next to nothing cost, in seconds.

    Attributes:
        node: one more node, without the profiler, in each round of two chains of such nodes.
        record: what the profiler adds to the time that it reports for a node.
        outside: what it adds to a call outside of its nodes.
    """

    node: tuple[float, ...]
    record: float
    outside: float


@dataclass(frozen=True)
class NodeTimes:
    """Seconds of the nodes of a file, whose medians sum with that of ``call`` to that of ``latency``.

    Attributes:
        latency: of a call without the profiler.
        call: what is spent in a call outside of nodes: inputs are checked, outputs handed over.
        nodes: of each node by its name, a number for each round.
        scale: by which the recorded times, without the cost of their records, were multiplied; 1 if records were
            all that the profiler costs.
        slowdown: how many times as long a call takes with the profiler.
    """

    latency: Measurement
    call: Measurement
    nodes: Mapping[str, tuple[float, ...]]
    scale: float
    slowdown: float


def node_times(
    plain: Sequence[Measurement], recorded: Sequence[Recorded], cost: Calibration, threads: int
) -> NodeTimes:
    """Return the times of nodes as they are without the profiler.

    Args:
        plain: turns without the profiler.
        recorded: turns with it, each beside the plain one in the same place.
        cost: of nodes and of their records.
        threads: on which both ran.
    """
    conditions = replace(of_all(turn.conditions for turn in plain), blas_threads=threads, between_runs=None)
    latency = tuple(turn.median for turn in plain)
    names = list(dict.fromkeys(name for turn in recorded for name in turn.nodes))
    outside = [max(turn.outside - cost.outside, 0.0) for turn in recorded]
    call = tuple(min(each, 0.9 * whole) for each, whole in zip(outside, latency, strict=True))
    times = {name: np.array([max(turn.nodes.get(name, 0.0) - cost.record, 0.0) for turn in recorded]) for name in names}
    # Medians, because in each round other programs take the cores from one node or another.
    usual = sum(float(np.median(each)) for each in times.values())
    scale = float(np.median(latency) - np.median(call)) / usual if usual else 1.0
    return NodeTimes(
        with_between_run_spread(Measurement("latency", latency, "s", conditions)),
        with_between_run_spread(Measurement("the call", call, "s", conditions)),
        {name: tuple((scale * each).tolist()) for name, each in times.items()},
        scale,
        float(np.median([turn.whole / own for own, turn in zip(latency, recorded, strict=True)])),
    )


@dataclass(frozen=True)
class Recorded:
    """Seconds of a turn with the profiler: of a call, of what is outside of its nodes, and of each node."""

    whole: float
    outside: float
    nodes: Mapping[str, float]


def recorded_turns(runs: Sequence[Run], turns: Sequence[Sequence[float]]) -> list[Recorded]:
    """Return what the profiler recorded in each turn.

    Args:
        runs: from `runs_of`: of each turn one that is left out, and then those that were timed.
        turns: the seconds of each timed run.

    Raises:
        ValueError: if there are not as many runs.
    """
    if len(runs) != sum(1 + len(turn) for turn in turns):
        raise ValueError(f"runs must be {sum(1 + len(turn) for turn in turns)}, not {len(runs)}")
    found, at = list[Recorded](), 0
    for turn in turns:
        some, at = runs[at + 1 : at + 1 + len(turn)], at + 1 + len(turn)
        names = dict.fromkeys(name for run in some for name in run.nodes)
        nodes = {name: middle([run.nodes.get(name, 0) for run in some]) * 1e-6 for name in names}
        outside = [whole - run.inside * 1e-6 for whole, run in zip(turn, some, strict=True)]
        found.append(Recorded(middle(turn), max(middle(outside), 0.0), nodes))
    return found


@dataclass(frozen=True)
class Run:
    """Microseconds of a run that the profiler recorded: of all nodes together, and of each of them."""

    inside: float
    nodes: Mapping[str, int]


def runs_of(events: Sequence[Mapping[str, Any]], bodies: frozenset[str]) -> list[Run]:
    """Return what the profiler recorded of each run, without the nodes that lie within the body of another one."""
    runs, nodes, inside = list[Run](), list[tuple[str, int, int]](), 0.0
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith("_kernel_time"):
            nodes.append((event["name"].removesuffix("_kernel_time"), int(event["ts"]), int(event["dur"])))
        elif event["name"] == "SequentialExecutor::Execute":
            inside = max(inside, float(event["dur"]))  # bodies of nodes have executors of their own
        elif event["name"] == "model_run":
            spans = [(start, start + lasts) for name, start, lasts in nodes if name in bodies]
            times: dict[str, int] = {}
            for name, start, lasts in nodes:
                within = any(begin <= start and start + lasts <= end for begin, end in spans)
                if name in bodies or not within:
                    times[name] = times.get(name, 0) + lasts
            runs.append(Run(inside or float(event["dur"]), times))
            nodes, inside = [], 0.0
    return runs


def middle(values: Sequence[float]) -> float:
    """Return the mean of the middle half: finer than the whole microseconds of the profiler, and blind to outliers."""
    ordered, cut = np.sort(np.asarray(values, float)), len(values) // 4
    return float(ordered[cut : len(ordered) - cut].mean())


def chain(length: int) -> bytes:
    """Return a file that negates one number ``length`` times."""
    from onnx import TensorProto, helper

    nodes = [helper.make_node("Neg", [f"x{at}"], [f"x{at + 1}"]) for at in range(length)]
    first, last = (helper.make_tensor_value_info(f"x{at}", TensorProto.FLOAT, [1]) for at in (0, length))
    graph = helper.make_graph(nodes, "chain", [first], [last])
    made: bytes = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8
    ).SerializeToString()
    return made


def with_names(path: str) -> bytes | None:
    """Return a file whose nodes all have a name, by which the profiler tells them apart; None if they have one."""
    import onnx

    file = onnx.load(path, load_external_data=False)
    taken = set[str]()

    def name(graph: Any) -> int:
        given = 0
        for node in graph.node:
            if not node.name or node.name in taken:
                first = next((output for output in node.output if output), node.op_type)
                node.name = first if first not in taken else f"{first} {len(taken)}"
                given += 1
            taken.add(node.name)
            given += sum(name(inner) for each in node.attribute for inner in (each.g, *each.graphs) if inner.node)
        return given

    return bytes(file.SerializeToString()) if name(file.graph) else None


class _Worker:
    """What the process holds."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._session: Any = None
        self._feeds: dict[str, Any] = {}
        self._run: Callable[[], Any] = lambda: None
        self._seconds = 0.0

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request."""
        made: dict[str, Any] = getattr(self, f"_{asked.pop('what')}")(**asked)
        return made

    def _options(self, profiled: bool, dump: str | None = None, level: str | None = None) -> Any:
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = self._settings["threads"]
        options.graph_optimization_level = getattr(
            onnxruntime.GraphOptimizationLevel, f"ORT_{LEVELS[level or self._settings['level']]}"
        )
        options.log_severity_level = 4
        if profiled:
            options.enable_profiling = True
            options.profile_file_prefix = os.path.join(self._folder, "events")
        if dump is not None:
            options.optimized_model_filepath = dump
            key = "session.optimized_model_external_initializers_"
            options.add_session_config_entry(key + "file_name", os.path.basename(dump) + ".weights")
            options.add_session_config_entry(key + "min_size_in_bytes", "256")
        return options

    def _load(self, path: str, settings: dict[str, Any], profiled: bool, dump: str | None) -> dict[str, Any]:
        import onnxruntime
        import psutil

        self._settings = settings
        self._before = psutil.Process().memory_info().rss
        start = time.perf_counter()
        options = self._options(profiled, dump)
        source: str | bytes = path
        if profiled and (named := with_names(path)) is not None:
            source = named
            options.add_session_config_entry(
                "session.model_external_initializers_file_folder_path", str(Path(path).parent)
            )
        self._session = onnxruntime.InferenceSession(source, options, providers=settings["providers"])
        seconds = time.perf_counter() - start
        inputs = [(each.name, each.type, each.shape) for each in self._session.get_inputs()]
        return {"inputs": inputs, "held": psutil.Process().memory_info().rss - self._before, "seconds": seconds}

    def _feed(self, path: str, names: list[str]) -> dict[str, Any]:
        with np.load(path) as arrays:
            values = [arrays[f"_{at}"] for at in range(len(names))]
        self._feeds = {
            name: value.astype(object) if value.dtype.kind == "U" else value
            for name, value in zip(names, values, strict=True)
        }
        self._run = partial(self._session.run, None, self._feeds)
        self._seconds = min(_timed(self._run) for _ in range(_FIRST_RUNS))
        return {"seconds": self._seconds}

    def _turn(self, runs: int) -> dict[str, Any]:
        lead_in = min(max(1, round(_LEAD_IN_SECONDS / max(self._seconds, 1e-6))), 50)
        taken = sample(self._run, "runs", warmup=lead_in, runs=runs)
        return {"seconds": taken.samples, "conditions": to_json(taken.conditions)}

    def _record(self, runs: int) -> dict[str, Any]:
        self._run()
        return {"seconds": [_timed(self._run) for _ in range(runs)]}

    def _outputs(self, path: str) -> dict[str, Any]:
        made = dict(zip([each.name for each in self._session.get_outputs()], self._run(), strict=True))
        kept = {name: each for name, each in made.items() if isinstance(each, np.ndarray) and each.dtype != object}
        _save(path, kept.values())
        return {"names": list(kept)}

    def _grown(self) -> dict[str, Any]:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return {"bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit - self._before}

    def _events(self) -> dict[str, Any]:
        return {"path": self._session.end_profiling()}

    def _calibrate(self) -> dict[str, Any]:
        import onnxruntime

        feeds = {"x0": np.ones(1, np.float32)}

        def session(length: int, profiled: bool) -> Any:
            options = self._options(profiled, level="none")
            return onnxruntime.InferenceSession(chain(length), options, providers=[CPU])

        short, long, recorded = session(_SHORT, False), session(_LONG, False), session(_LONG, True)
        few, many, walls = list[float](), list[float](), list[float]()
        for _ in range(_CHAIN_ROUNDS):
            for one, times in ((short, few), (long, many)):
                times.append(middle([_timed(partial(one.run, None, feeds)) for _ in range(8)]))
            walls += [_timed(partial(recorded.run, None, feeds)) for _ in range(4)]
        runs = runs_of(json.loads(Path(recorded.end_profiling()).read_bytes()), frozenset())
        return asdict(costs_of_chains(few, many, walls, runs))


def costs_of_chains(
    few: Sequence[float], many: Sequence[float], walls: Sequence[float], runs: Sequence[Run]
) -> Calibration:
    """Return what nodes and their records cost; no cost is below 0, which other programs can make a difference be.

    Args:
        few, many: seconds of the short and of the long chain, of each round.
        walls: seconds of the long chain with the profiler on.
        runs: what the profiler recorded of these.
    """
    nodes = [max((more - less) / (_LONG - _SHORT), 1e-9) for less, more in zip(few, many, strict=True)]
    usual = float(np.median(nodes))
    record = middle([middle([*run.nodes.values()]) * 1e-6 for run in runs]) - usual
    outside = middle([wall - run.inside * 1e-6 for wall, run in zip(walls, runs, strict=True)])
    plain = float(np.median(few)) - _SHORT * usual
    return Calibration(tuple(nodes), max(record, 0.0), max(outside - plain, 0.0))


def _save(path: str | Path, arrays: Iterable[Array]) -> None:
    named: dict[str, Any] = {f"_{at}": array for at, array in enumerate(arrays)}
    np.savez(path, **named)


def _timed(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def main(folder: str) -> int:
    """Answer each line of standard input until it ends; what ONNX Runtime prints goes to standard error."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    worker = _Worker(folder)
    for line in sys.stdin:
        try:
            said = worker.answer(json.loads(line))
        except ModuleNotFoundError as error:
            said = {"missing": f"{error.name} is not installed: pip install onnx onnxruntime"}
        except Exception as error:  # of ONNX Runtime, which raises what it likes
            said = {"refused": reason(str(error) or type(error).__name__)}
        answers.write(json.dumps(said) + "\n")
        answers.flush()
    return 0


def reason(text: str) -> str:
    """Return what an error of ONNX Runtime says, without its codes and places in its source, on one line."""
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : [A-Z_]+ : ", "", text)
    text = re.sub(r"[^\s:]*\.(cc|h):\d+ ((\w+ )?[\w:]+\([^)]*\) |[A-Z]\w*[a-z][A-Z]\w* )?", " ", text)
    text = " ".join(text.split())
    return text if len(text) <= 400 else f"{text[:400]} …"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
