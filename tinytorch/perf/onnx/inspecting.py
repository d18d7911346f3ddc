"""What a file asks for, told by its shapes alone: nothing runs, and weights beside the file are not looked at."""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.core.op import Array, Shape
from tinytorch.perf.measuring.text_table import Column, print_table, whole
from tinytorch.perf.onnx import counting
from tinytorch.perf.onnx.reading import bound_inputs, is_learned, loaded, named_scope, sorted_nodes

#: Longest constants that may be shapes, axes or the like, which are worked out.
_MOST_NUMBERS = 4096


@dataclass(frozen=True, slots=True)
class ModuleCount:
    """A module of a file, with those in it: its parameters, FLOPs (2 for each multiply-add) and last output.

    ``flops`` is None where a node in it has no formula, or a shape that is not known.
    """

    path: str
    parameters: int
    flops: int | None
    output: Shape | None


@dataclass(frozen=True)
class FileCount:
    """Parameters, FLOPs and output shapes of a file, as `count_onnx` tells them.

    ``parameters`` are elements of constants of floats with more than one that data meet, each once, whatever reads it;
    ``weight_bytes`` are those of all constants; ``uncounted`` has the number of nodes, by operator, whose FLOPs are
    in no sum.
    """

    parameters: int
    weight_bytes: int
    flops: int
    modules: tuple[ModuleCount, ...]
    outputs: Mapping[str, Shape | None]
    uncounted: Mapping[str, int]

    def print_report(self) -> None:
        """Print a row for each module, and the totals."""
        notes = [
            f"{self.parameters:,} parameters, {self.weight_bytes:,} bytes of weights, {self.flops:,} FLOPs "
            "of contractions (2 for each multiply-add)"
        ]
        if self.uncounted:
            missing = ", ".join(f"{kind} ({count})" for kind, count in sorted(self.uncounted.items()))
            notes.append(f"in no sum, because their shapes or formulas are not known: {missing}")
        print_table(self.modules, _COLUMNS, notes)


def _shape_text(shape: Any) -> str:
    return "–" if shape is None else str(shape)


_COLUMNS = (
    Column("path", "module", numeric=False),
    Column("parameters", "parameters", whole),
    Column("flops", "FLOPs", whole),
    Column("output", "output", _shape_text),
)


def count_onnx(path: str | os.PathLike[str], input_shape: Shape | None = None, **lengths: int) -> FileCount:
    """Count the FLOPs and bytes of a file without running it, also if the model does not fit in memory.

    Args:
        path: of the file.
        input_shape: of the first input, batch first; by default what the file says, with a batch of 1 if it is open.
        lengths: named lengths that the file leaves open, such as ``sequence=128``.

    Raises:
        ValueError: if this is not an ONNX file, or leaves a length open that is not given.
        FileNotFoundError: if there is no such file.
        RuntimeError: if the onnx package is not installed.

    Examples:
        >>> from tinytorch.chapters.your_model import studies
        >>> from tinytorch.perf.onnx import count_onnx
        >>> counted = count_onnx(studies.FILE, (6, 3, 48, 192))
        >>> counted.outputs
        {'save_infer_model/scale_0.tmp_1': (6, 2)}
    """
    return _Inspector(loaded(path, weights=False), os.path.basename(os.fspath(path)), input_shape, lengths).count()


class _Inspector:
    """The graph of a file while its shapes are found, node by node."""

    def __init__(self, file: Any, name: str, input_shape: Shape | None, lengths: Mapping[str, int]) -> None:
        self._file, self._graph, self._name = file, file.graph, name
        self._opsets = {each.domain: each.version for each in file.opset_import}
        self._types: dict[str, Any] = {}
        self._numbers: dict[str, Array] = {}
        self._parameters: dict[str, int] = {}
        self._bytes = 0
        self._add_weights()
        for declared in bound_inputs(self._graph, input_shape, lengths):
            self._set(declared.name, declared.dtype, declared.shape)

    def _add_weights(self) -> None:
        from onnx import TensorProto, helper, numpy_helper

        for tensor in self._graph.initializer:
            shape, dtype = tuple(tensor.dims), np.dtype(helper.tensor_dtype_to_np_dtype(tensor.data_type))
            size = math.prod(shape)
            bits = 4 if tensor.data_type in (TensorProto.INT4, TensorProto.UINT4) else 8 * dtype.itemsize
            self._bytes += size * bits // 8
            if dtype.kind == "f" and size > 1:
                self._parameters[tensor.name] = size
            self._types[tensor.name] = helper.make_tensor_type_proto(tensor.data_type, shape)
            if size <= _MOST_NUMBERS and not tensor.external_data and dtype.kind in "iubf":
                self._numbers[tensor.name] = numpy_helper.to_array(tensor)

    def _set(self, name: str, dtype: Any, shape: Sequence[Any]) -> None:
        from onnx import helper

        self._types[name] = helper.make_tensor_type_proto(helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

    def _shape(self, name: str) -> Shape | None:
        """Return the shape of a value; None if it is not known."""
        kind = self._types.get(name)
        if kind is None or not kind.tensor_type.HasField("shape"):
            return None
        lengths = kind.tensor_type.shape.dim
        return (
            tuple(each.dim_value for each in lengths) if all(each.HasField("dim_value") for each in lengths) else None
        )

    def count(self) -> FileCount:
        """Return what all nodes ask for."""
        rows: dict[tuple[str, ...], list[Any]] = {}
        uncounted: Counter[str] = Counter()
        read, products, total, parameters = set[str](), set[str](), 0, 0
        initialized = {tensor.name for tensor in self._graph.initializer}
        for number, node in enumerate(sorted_nodes(self._graph.node, self._name)):
            self._infer(node)
            flops = self._flops(node)
            if flops is None:
                uncounted[f"{node.domain}.{node.op_type}" if node.domain else node.op_type] += 1
            total += flops or 0
            joined = node.op_type == "Add" and not products.isdisjoint(node.input)
            learned = {
                name
                for index, name in enumerate(node.input)
                if name in self._parameters and is_learned(node, index, name in initialized or joined)
            }
            products.update(node.output if node.op_type == "MatMul" else ())
            held = sum(self._parameters[name] for name in learned - read)
            parameters, read = parameters + held, read | learned
            output = self._shape(node.output[0]) if node.output else None
            scope, own = named_scope(node.name or f"{node.op_type}_{number}")
            ends = [*range(len(scope) + 1), *([len(scope) + 1] if held or flops else [])]
            for end in ends:
                row = rows.setdefault((*scope, own)[:end], [0, 0, None])
                row[0] += held
                row[1] = None if flops is None or row[1] is None else row[1] + flops
                row[2] = output
        modules = tuple(ModuleCount(".".join(path), *row) for path, row in rows.items())
        outputs = {each.name: self._shape(each.name) for each in self._graph.output}
        return FileCount(parameters, self._bytes, total, modules, outputs, dict(uncounted))

    def _flops(self, node: Any) -> int | None:
        from tinytorch.perf.onnx.folding import attributes_of

        kind = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
        if not counting.has_formula(kind):
            return 0 if counting.is_counted(kind) else None
        shapes = [self._shape(name) if name else () for name in node.input]
        output = self._shape(next(name for name in node.output if name))
        if output is None or any(shape is None for shape in shapes):
            return None
        try:
            macs = counting.macs(kind, attributes_of(node), shapes, output)
        except (IndexError, KeyError, TypeError, ValueError):  # of operands for which there is no formula
            return None
        return None if macs is None else 2 * macs

    def _infer(self, node: Any) -> None:
        """Find the types of a node's outputs, and their numbers where these depend on shapes and constants alone."""
        from onnx import defs, numpy_helper, shape_inference

        from tinytorch.perf.onnx.folding import constant_of, is_pure
        from tinytorch.perf.onnx.reference import Evaluated

        made: Any = None
        shape = self._shape(node.input[0]) if node.op_type in ("Shape", "Size") and not node.domain else None
        if node.op_type == "Constant":
            made = constant_of(node)
        elif shape is not None:
            bounds = {each.name: each.i for each in node.attribute}
            whole_shape = np.array(shape[bounds.get("start", 0) : bounds.get("end")], np.int64)
            made = whole_shape if node.op_type == "Shape" else np.array(math.prod(shape), np.int64)
        elif is_pure(node) and all(name in self._numbers for name in node.input if name):
            try:
                made = Evaluated(node, self._opsets)(*(self._numbers.get(name) for name in node.input))
            except Exception:  # of the reference, for what it does not know: the shape may be known all the same
                made = None
        if made is not None:
            for name, value in zip(node.output, made if isinstance(made, tuple) else (made,), strict=False):
                if name and isinstance(value, np.ndarray) and value.dtype.kind in "iubf":
                    self._set(name, value.dtype, value.shape)
                    if node.op_type == "Constant" and value.dtype.kind == "f" and value.size > 1:
                        self._parameters[name] = value.size
                        self._bytes += value.nbytes
                    if value.size <= _MOST_NUMBERS:
                        self._numbers[name] = value
            return
        try:
            schema = defs.get_schema(node.op_type, self._opsets.get(node.domain, 1), node.domain)
            known = {name: self._types[name] for name in node.input if name in self._types}
            data = {name: numpy_helper.from_array(self._numbers[name]) for name in node.input if name in self._numbers}
            self._types.update(
                shape_inference.infer_node_outputs(
                    schema,
                    node,
                    known,
                    data,
                    opset_imports=list(self._file.opset_import),
                    ir_version=self._file.ir_version,
                )
            )
        except Exception:  # of the inference, for what it does not know: what follows is not known either
            return
