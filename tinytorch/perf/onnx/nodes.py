"""The graph that ONNX Runtime runs, joined to the file's own: shapes, FLOPs, bytes and modules of each node.

ONNX Runtime writes both graphs, the file's own (with optimization level none) and the one that it runs. A value keeps
its name where optimizations leave it alone, so a node of the second stands for those nodes of the first that lie
between the values that it reads and those that it writes. Shapes are those of a run.
"""

from __future__ import annotations

import ast
import math
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch.core.op import Array
from tinytorch.perf.onnx import counting
from tinytorch.perf.onnx.folding import attributes_of
from tinytorch.perf.onnx.reading import named_scope

#: Bits of an element by the name that ONNX Runtime's profiler has for its type.
_BITS = {
    "double": 64, "int64": 64, "uint64": 64, "float": 32, "int32": 32, "uint32": 32, "float16": 16, "bfloat16": 16,
    "int16": 16, "uint16": 16, "int8": 8, "uint8": 8, "bool": 8, "int4": 4, "uint4": 4
}  # fmt: skip
#: Operators that write nothing where their input is not needed any more, and those that read as much as they write.
VIEWS = frozenset({"Flatten", "Identity", "Reshape", "Shape", "Size", "Squeeze", "Unsqueeze"})
_PICKING = frozenset({"Gather", "GatherElements", "GatherND", "Slice", "com.microsoft.GatherBlockQuantized"})
#: Operators that change the type of numbers, and their layout.
CONVERSIONS = frozenset({"Cast", "DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"})
LAYOUTS = frozenset({"Transpose", "com.microsoft.nchwc.ReorderInput", "com.microsoft.nchwc.ReorderOutput"})
_PASSING = VIEWS | LAYOUTS
#: How ONNX Runtime names a node in blocks of channels, by the value that it makes, and one that it made of a node of
#: this name and of the conversions around it, with a number.
_BLOCKED, _REPLACED = "_nchwc", "_token_"


@dataclass(frozen=True)
class Value:
    """Type, as ONNX Runtime's profiler names it, and shape of a value."""

    type: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def bytes(self) -> int:
        """Bytes of all elements; 0 for text and other types without a size."""
        return -(-self.size * _BITS.get(self.type, 0) // 8)


@dataclass(frozen=True)
class Work:
    """Work of a node, or of several nodes together.

    Attributes:
        flops: FLOPs of contractions, 2 for each multiply-accumulate.
        elementwise: all other operations, one for each element of the largest operand.
        bytes: bytes that are moved if each operand is read once and each result is written once.
        weights: those of ``bytes`` that are read from constants.
        integer: those of ``flops`` that are on 8-bit integers.
        uncounted: operators that have no formula.
    """

    flops: int = 0
    elementwise: int = 0
    bytes: int = 0
    weights: int = 0
    integer: int = 0
    uncounted: tuple[str, ...] = ()

    def __add__(self, other: Work) -> Work:
        return Work(
            self.flops + other.flops,
            self.elementwise + other.elementwise,
            self.bytes + other.bytes,
            self.weights + other.weights,
            self.integer + other.integer,
            tuple(dict.fromkeys((*self.uncounted, *other.uncounted))),
        )


@dataclass(frozen=True)
class GraphNode:
    """A node of a graph: its operator, with its domain if that is not the standard one, and the nodes of its bodies."""

    name: str
    kind: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: Mapping[str, Any]
    body: tuple[GraphNode, ...]

    def all(self) -> Iterator[GraphNode]:
        """Give the node and all in its bodies."""
        yield self
        for each in self.body:
            yield from each.all()

    @property
    def reads(self) -> tuple[str, ...]:
        """Names of values that it or its bodies read."""
        return tuple(name for node in self.all() for name in node.inputs if name)


class Graph:
    """A graph that ONNX Runtime wrote.

    ``events`` of its profiler name the nodes that have no name: those of a function that ONNX Runtime wrote out.

    Attributes:
        nodes: in an order in which each comes after those that it reads.
        constants: type and shape of each.
    """

    def __init__(self, path: str | os.PathLike[str], events: Sequence[Mapping[str, Any]] = ()) -> None:
        import onnx

        file = onnx.load(os.fspath(path), load_external_data=False)
        self.constants: dict[str, Value] = {}
        self.nodes = _named(self._read(file.graph), events)
        self.bodies = frozenset(node.name for node in self.nodes if node.body)

    def _read(self, graph: Any) -> list[GraphNode]:
        from onnx import TensorProto

        for tensor in graph.initializer:
            kind = TensorProto.DataType.Name(tensor.data_type).lower()
            self.constants[tensor.name] = Value(kind, tuple(tensor.dims))
        nodes = []
        for node in graph.node:
            inner = [each for attribute in node.attribute for each in (attribute.g, *attribute.graphs) if each.node]
            body = tuple(each for part in inner for each in self._read(part))
            standard = node.domain in ("", "ai.onnx")
            kind = node.op_type if standard else f"{node.domain}.{node.op_type}"
            found = {} if inner else attributes_of(node)
            nodes.append(GraphNode(node.name, kind, tuple(node.input), tuple(node.output), found, body))
        return nodes

    def living(self, inputs: Iterable[str]) -> set[str]:
        """Return the names of the nodes that depend on one of ``inputs``: the others are the same in each call."""
        reached, found = set(inputs), set[str]()
        for node in self.nodes:
            if not reached.isdisjoint(node.reads):
                found.add(node.name)
                reached.update(node.outputs)
        return found

    def work(self, events: Sequence[Mapping[str, Any]], feeds: Mapping[str, Array]) -> dict[str, Work]:
        """Return what each node asks for in the last run of ``events``; what its bodies ask for is part of it."""
        values = dict(self.constants)
        values |= {name: Value(_type_of(array), array.shape) for name, array in feeds.items()}
        nodes = {inner.name: (inner, top) for top in self.nodes for inner in top.all()}
        found = {node.name: Work() for node in self.nodes}
        for event in _last_run(events):
            inner, top = nodes.get(event["name"].removesuffix("_kernel_time"), (None, None))
            if inner is None or top is None:
                continue
            said, made = (_values(event["args"].get(f"{end}_type_shape", [])) for end in ("input", "output"))
            names = [name for name in inner.inputs if name]
            for name in names:  # ONNX Runtime leaves out a weight that it has packed
                if said and self.constants.get(name, said[0]) == said[0]:
                    values[name] = said.pop(0)
            values.update(zip([name for name in inner.outputs if name], made, strict=False))
            if not inner.body:
                operands = [values.get(name) if name else None for name in inner.inputs]
                weights = sum(self.constants[name].bytes for name in names if name in self.constants)
                found[top.name] += work_of(inner.kind, inner.attributes, operands, made, weights)
        return found


def _named(nodes: list[GraphNode], events: Sequence[Mapping[str, Any]]) -> list[GraphNode]:
    """Return nodes of which the unnamed ones have the names that events give them: operator and number, in order."""
    taken, free = {node.name for node in nodes}, dict[str, dict[int, None]]()
    for event in events if "" in taken else ():
        name = event["name"].removesuffix("_kernel_time")
        kind, _, number = name.rpartition("_")
        if name not in taken and number.isdigit() and event.get("args", {}).get("op_name") == kind:
            free.setdefault(kind, {})[int(number)] = None
    numbers = {kind: sorted(found) for kind, found in free.items()}
    made = []
    for node in nodes:
        own = numbers.get(node.kind.rpartition(".")[2], [])
        made.append(
            node if node.name or not own else replace(node, name=f"{node.kind.rpartition('.')[2]}_{own.pop(0)}")
        )
    return made


def _last_run(events: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    ends = [at for at, event in enumerate(events) if event["name"] == "model_run"]
    first = ends[-2] + 1 if len(ends) > 1 else 0
    some = events[first : ends[-1]] if ends else []
    return [event for event in some if event.get("cat") == "Node" and event["name"].endswith("_kernel_time")]


def _values(said: Sequence[Mapping[str, Sequence[int]]]) -> list[Value]:
    return [Value(kind, tuple(shape)) for each in said for kind, shape in each.items()]


def _type_of(array: Array) -> str:
    usual = {"float32": "float", "float64": "double"}
    return usual.get(array.dtype.name, array.dtype.name)


def work_of(
    kind: str,
    attributes: Mapping[str, Any],
    operands: Sequence[Value | None],
    outputs: Sequence[Value],
    weights: int = 0,
) -> Work:
    """Return what a node asks for, of the types and shapes of its operands and outputs.

    ``weights`` are the bytes of those operands that are constants.
    """
    present = [each for each in operands if each is not None]
    moved = sum(each.bytes for each in outputs)
    if kind in VIEWS:
        moved, weights = 0, 0
    elif kind in _PICKING:
        moved, weights = 2 * moved + sum(each.bytes for each in present[1:]), 0
    else:
        moved += sum(each.bytes for each in present)
    if kind in VIEWS or kind in LAYOUTS or counting.moves(kind):
        return Work(bytes=moved, weights=weights)
    if counting.has_formula(kind) and outputs:
        shapes = [None if each is None else each.shape for each in operands]
        try:
            flops = 2 * (counting.macs(kind, attributes, shapes, outputs[0].shape) or 0)
        except (IndexError, KeyError, TypeError, ValueError):  # of an operand whose shape no event has told
            return Work(bytes=moved, weights=weights, uncounted=(kind,))
        whole = kind.rpartition(".")[2].startswith("Dynamic") or (present and present[0].type in ("int8", "uint8"))
        return Work(flops, 0, moved, weights, flops if whole else 0)
    if not counting.is_counted(kind):
        return Work(bytes=moved, weights=weights, uncounted=(kind,))
    return Work(0, max((each.size for each in (*present, *outputs)), default=0), moved, weights)


@dataclass(frozen=True)
class Origins:
    """Which nodes of the file each node that runs stands for.

    Attributes:
        of: names of the file's nodes by that of the node that runs; none of one that ONNX Runtime put in.
        folded: names of the file's nodes that none stands for: of constants or shapes alone, or left out.
    """

    of: Mapping[str, tuple[str, ...]]
    folded: tuple[str, ...]


def origins(own: Graph, run: Graph) -> Origins:
    """Return which nodes of the file's ``own`` graph the nodes of the one that is ``run`` stand for."""
    makers = {name: node for node in own.nodes for name in node.outputs if name}
    first = {node.name: node.outputs[0] for node in own.nodes if node.outputs}
    known: dict[str, str] = {}  # names of values of the file by those of values that are run
    for node in run.nodes:
        named = node.name.removesuffix(_BLOCKED)
        if _REPLACED in node.name:
            named = first.get(node.name.rpartition(_REPLACED)[0], node.name)
        for at, name in enumerate(node.outputs):
            if name in makers:
                known[name] = name
            elif at == 0 and named != node.name and named in makers:
                known[name] = named
            elif node.kind in _PASSING and node.inputs[0] in known:
                known[name] = known[node.inputs[0]]
    for node in reversed(run.nodes):  # what a node makes in another shape or order, and one after it turns back
        if node.kind in _PASSING and node.outputs[0] in known and node.inputs[0] not in makers:
            known.setdefault(node.inputs[0], known[node.outputs[0]])
    ends = {*known.values(), *run.constants}
    claimed, found = set[str](), dict[str, tuple[str, ...]]()
    for node in run.nodes:
        waiting = [known[name] for name in node.outputs if name in known]
        inside = dict[str, None]()
        makes = {*waiting}
        while waiting:
            maker = makers.get(waiting.pop())
            if maker is None or maker.name in claimed or maker.name in inside:
                continue
            inside[maker.name] = None
            waiting += [name for name in maker.reads if name in makes or name not in ends]
        claimed.update(inside)
        found[node.name] = tuple(reversed(inside))
    return Origins(found, tuple(node.name for node in own.nodes if node.name not in claimed))


def modules_of(path: str | os.PathLike[str], own: Graph) -> dict[str, str]:
    """Return the module of each node of the file, by the node's name, as the exporter tells it; "" if it does not.

    PyTorch's newer exporter writes it into the properties of a node; the older one, and others, into its name.
    """
    import onnx

    told: dict[str, str] = {}
    for node in onnx.load(os.fspath(path), load_external_data=False).graph.node:
        said = {each.key: each.value for each in node.metadata_props}
        if (scopes := said.get("pkg.torch.onnx.name_scopes")) and node.output:
            try:
                names = ast.literal_eval(scopes)
                told[node.output[0]] = names[-2] if len(names) > 1 else ""
            except (SyntaxError, ValueError, TypeError):
                continue
    found = {}
    for node in own.nodes:
        first = next((name for name in node.outputs if name), "")
        found[node.name] = told[first] if first in told else ".".join(named_scope(node.name)[0])
    return found


@dataclass(frozen=True)
class Row:
    """A node as it runs.

    Attributes:
        name, kind, module: of it; the operator with its domain if that is not the standard one.
        seconds: one number for each round; they sum over all nodes, and with the call, to the latency.
        work: as it runs: FLOPs of the kernel, which may compute on padded channels.
        flops: of the file's own nodes that it stands for; None if one of these has no formula.
        origins: operators of the file's nodes that it stands for.
        types: of its inputs.
        shapes: of its outputs.
        provider: that runs it.
    """

    name: str
    kind: str
    module: str
    seconds: tuple[float, ...]
    work: Work
    flops: int | None
    origins: tuple[str, ...]
    types: tuple[str, ...]
    shapes: tuple[tuple[int, ...], ...]
    provider: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def middle(self) -> float:
        """The median of its seconds."""
        return float(np.median(self.seconds))


def joined(
    path: str | os.PathLike[str],
    own: tuple[Graph, Sequence[Mapping[str, Any]]],
    run: tuple[Graph, Sequence[Mapping[str, Any]]],
    feeds: Mapping[str, Array],
    seconds: Mapping[str, tuple[float, ...]],
) -> tuple[list[Row], Work, Origins]:
    """Return a row for each node that runs, the longest first, the work of the file, and what stands for what.

    Args:
        path: of the file.
        own, run: its own graph and the one that ONNX Runtime runs, each with the events of at least one run.
        feeds: inputs of these runs.
        seconds: of each node that runs, by its name.
    """
    mapped, asked = origins(own[0], run[0]), own[0].work(own[1], feeds)
    living, modules = own[0].living(feeds), modules_of(Path(path), own[0])
    kinds = {node.name: node.kind for node in own[0].nodes}
    ran = {event["name"].removesuffix("_kernel_time"): event["args"] for event in _last_run(run[1])}
    done, works = [], run[0].work(run[1], feeds)
    for node in run[0].nodes:
        if node.name not in seconds:
            continue
        parts = mapped.of[node.name]
        whole = sum((asked[name] for name in parts if name in living), Work())
        work = works[node.name]
        if work.uncounted and parts and not whole.uncounted:
            work = Work(whole.flops, whole.elementwise, work.bytes, work.weights, whole.integer)
        elif parts and not node.body:
            work = Work(work.flops, whole.elementwise, work.bytes, work.weights, work.integer, work.uncounted)
        first = next((name for name in parts if asked[name].flops), parts[-1] if parts else "")
        said = ran.get(node.name, {})
        done.append(
            Row(
                node.name,
                node.kind,
                modules.get(first, ""),
                seconds[node.name],
                work,
                None if whole.uncounted or (work.uncounted and not parts) else whole.flops,
                tuple(kinds[name] for name in parts),
                tuple(each.type for each in _values(said.get("input_type_shape", []))),
                tuple(each.shape for each in _values(said.get("output_type_shape", []))),
                str(said.get("provider", "")),
                node.reads,
                node.outputs,
            )
        )
    total = sum((work for name, work in asked.items() if name in living), Work())
    return sorted(done, key=lambda row: -row.middle), total, mapped
