"""A model that was read from an ONNX graph: its steps in order, in the scopes that its nodes' names tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tinytorch.core.module import Module
from tinytorch.core.op import Array, Shape
from tinytorch.core.tensor import Tensor
from tinytorch.perf.onnx.node import Operand, Runner, truth

Values = dict[str, Any]

#: Conditions by name, and what each must be, of the branches that a node stands in.
Guards = tuple[tuple[str, bool], ...]

#: Shapes of inputs whose known numbers are kept.
_MOST_SHAPES = 32


@dataclass(frozen=True)
class Input:
    """An input as the file declares it: a length that is not fixed is named, or None."""

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int | str | None, ...]

    def described(self) -> str:
        """Return it as a sentence can show it."""
        lengths = ", ".join("?" if length is None else str(length) for length in self.shape)
        return f"{self.name} ({lengths}) of {self.dtype}"

    def bind(self, shape: Shape, lengths: dict[str, int]) -> None:
        """Add to ``lengths`` what ``shape`` says of named ones.

        Raises:
            ValueError: if the shape does not fit.
        """
        fits = len(shape) == len(self.shape)
        for length, wanted in zip(shape, self.shape, strict=False):
            if isinstance(wanted, str):
                fits &= lengths.setdefault(wanted, length) == length
            else:
                fits &= wanted is None or wanted == length
        if not fits:
            known = ", ".join(f"{name}={length}" for name, length in lengths.items())
            raise ValueError(f"input {self.described()} cannot have shape {shape}{known and f' with {known}'}")

    def example(self, lengths: Mapping[str, int], first: Shape) -> Array:
        """Return ones for a mask and zeros for all else, as long as ``lengths`` says, or else 1.

        A length without a name is that of the ``first`` input along the same axis, or its batch if it has other axes.
        """
        unnamed = first if len(first) == len(self.shape) else first[:1] * len(self.shape)
        shape = tuple(
            length if isinstance(length, int) else lengths.get(length, 1) if length else along
            for length, along in zip(self.shape, unnamed or (1,) * len(self.shape), strict=True)
        )
        return np.ones(shape, self.dtype) if "mask" in self.name.lower() else np.zeros(shape, self.dtype)


class Step:
    """One node: reads its operands, runs, writes its outputs, and drops what nobody reads after it.

    ``known`` says that it depends on nothing but constants and shapes; of a branch it runs only if the conditions in
    ``guards`` are what they must be.
    """

    __slots__ = ("drops", "guards", "inputs", "known", "outputs", "run")

    def __init__(
        self, run: Runner, inputs: Sequence[str], outputs: Sequence[str], known: bool, guards: Guards = ()
    ) -> None:
        self.run, self.inputs, self.outputs, self.known = run, tuple(inputs), tuple(outputs), known
        self.guards, self.drops = guards, tuple[str, ...]()

    def __call__(self, values: Values) -> None:
        """Run on ``values`` by name; what is known is worked out once for each shape of the inputs."""
        if self.known and self.outputs[0] in values:
            return
        if all(truth(values[name]) == wanted for name, wanted in self.guards):
            self._run(values)
        for name in self.drops:
            values.pop(name, None)

    def _run(self, values: Values) -> None:
        operands: list[Operand] = [values.get(name) for name in self.inputs]  # None for "", and in a branch not taken
        made = self.run(*operands)
        del operands
        if isinstance(made, tuple):
            values.update((name, value) for name, value in zip(self.outputs, made, strict=False) if name)
        else:
            values[self.outputs[0]] = made


class Block(Module):
    """A scope of the graph, such as a layer of the exported model; it holds layers and inner scopes by name."""

    def __init__(self) -> None:
        self.layers: dict[str, Module] = {}

    def forward(self, values: Values, parts: Sequence[Part]) -> None:
        """Run ``parts`` of the graph that lie in this scope."""
        for part in parts:
            part(values)

    def named(self, name: str, module: Module) -> Module:
        """Keep a module under ``name``, with a number behind it if there is one already; return it."""
        free = name
        number = 2
        while free in self.layers:
            free, number = f"{name}_{number}", number + 1
        self.layers[free] = module
        return module

    def _named_values(self) -> Iterator[tuple[str, Any]]:
        for name, value in super()._named_values():
            yield name.removeprefix("layers."), value


class Run:
    """Consecutive steps of one scope."""

    __slots__ = ("block", "parts")

    def __init__(self, block: Block, parts: list[Part]) -> None:
        self.block, self.parts = block, parts

    def __call__(self, values: Values) -> None:
        """Run them as a call of the scope's module."""
        self.block(values, self.parts)


Part = Step | Run


class OnnxModel(Block):
    """The model of an ONNX file; `from_onnx` makes it.

    Called with the graph's inputs in its order (``inputs`` has them). Later ones may be left out: then they are what
    ``stand_ins`` holds for them by name, else ones for masks and zeros for all else. It returns a Tensor, or a tuple if
    the graph has several outputs. It starts in eval mode.

    Examples:
        >>> from tinytorch import Module
        >>> from tinytorch.perf.onnx import OnnxModel
        >>> issubclass(OnnxModel, Module)  # to be profiled, quantized and planned as any
        True
    """

    worked_out = ("_known",)

    def __init__(
        self,
        inputs: Sequence[Input],
        outputs: Sequence[str],
        constants: Mapping[str, Tensor | Array],
        known: frozenset[str],
    ) -> None:
        super().__init__()
        self.inputs, self.outputs = tuple(inputs), tuple(outputs)
        self.constants = dict(constants)
        self.input_dtype = inputs[0].dtype
        self.stand_ins: dict[str, Array] = {}
        self.parts: list[Part] = []
        self._known_names = known
        self._known: dict[tuple[Any, ...], Values] = {}

    def forward(self, *inputs: Any) -> Any:  # type: ignore[override, unused-ignore]
        """Return the outputs for ``inputs``: Tensors, arrays, or None for one that is left out.

        Raises:
            ValueError: if there are too many, or a shape does not fit.
        """
        given = self.completed(inputs)
        shapes = tuple(tensor.shape for tensor in given)
        values: Values = {**self.constants, **self._known.get(shapes, {})}
        values.update(zip((each.name for each in self.inputs), given, strict=True))
        del given
        for part in self.parts:
            part(values)
        if shapes not in self._known:
            if len(self._known) == _MOST_SHAPES:
                self._known.pop(next(iter(self._known)))
            self._known[shapes] = {name: values[name] for name in self._known_names if name in values}
        made = tuple(_as_tensor(values[name]) for name in self.outputs)
        return made[0] if len(made) == 1 else made

    @property
    def example_batch(self) -> int:
        """How many examples are run at a time if none says: what the file fixes, else 1."""
        return next((each for each in self.inputs[0].shape[:1] if isinstance(each, int)), 1)

    def example(self, batch: int | None = None, **lengths: int) -> tuple[Tensor, ...]:
        """Return inputs of the declared shapes: ones for masks, zeros for all else.

        Args:
            batch: how many at a time: the length of the first input's first axis; by default what the file fixes,
                else 1.
            lengths: named lengths, such as ``sequence=128``.

        Raises:
            ValueError: if the file fixes the batch to another number, or leaves a length open that is not given.
        """
        first, bound = self.inputs[0], dict(lengths)
        batch = self.example_batch if batch is None else batch
        if first.shape:
            axis = first.shape[0]
            if isinstance(axis, int) and axis != batch:
                raise ValueError(
                    f"batch must be {axis}, which the file fixes for input {first.described()}, not {batch}"
                )
            if isinstance(axis, str):
                bound[axis] = batch
        shape = [
            batch,
            *(bound.get(str(each), each) if not isinstance(each, int) else each for each in first.shape[1:]),
        ]
        fixed = tuple(each for each in shape if isinstance(each, int))
        if first.shape and len(fixed) < len(shape):
            raise ValueError(
                f"input {first.described()} leaves lengths open: give them by name, or on the command line the shape "
                "of one input, such as --input-shape 3,224,224"
            )
        made = np.zeros(fixed if first.shape else (), first.dtype)
        return self.completed((Tensor(made),))

    def completed(self, inputs: Sequence[Any]) -> tuple[Tensor, ...]:
        """Return a Tensor for each input of the graph, of its dtype; what is missing is made up, as `OnnxModel` says.

        Raises:
            ValueError: if there are too many, or a shape does not fit.
        """
        if not inputs or len(inputs) > len(self.inputs):
            declared = "; ".join(each.described() for each in self.inputs)
            raise ValueError(f"the model takes 1 to {len(self.inputs)} inputs ({declared}), not {len(inputs)}")
        lengths: dict[str, int] = {}
        given: dict[str, Tensor] = {}
        for number, declared_input in enumerate(self.inputs):
            if number < len(inputs):
                value = inputs[number]
            else:  # of as many examples as the first input has
                value = self.stand_ins.get(declared_input.name)
                along = declared_input.shape[0] if declared_input.shape else None
                value = value[: lengths[along]] if value is not None and along in lengths else value
            if value is None:
                continue
            tensor = _as_tensor(value)
            if tensor.dtype != declared_input.dtype:
                tensor = _of_dtype(tensor, declared_input)
            declared_input.bind(tensor.shape, lengths)
            given[declared_input.name] = tensor
        first = given[self.inputs[0].name].shape if self.inputs[0].name in given else ()
        return tuple(
            given[each.name] if each.name in given else Tensor(each.example(lengths, first)) for each in self.inputs
        )

    def _described(self) -> str:
        return "; ".join(each.described() for each in self.inputs)


def _as_tensor(value: Any) -> Tensor:
    return value if isinstance(value, Tensor) else Tensor(np.asarray(value))


def _of_dtype(tensor: Tensor, declared: Input) -> Tensor:
    """Return the input in the dtype that the graph declares, where no number changes by that."""
    made = tensor.data.astype(declared.dtype)
    if declared.dtype.kind in "iub" and tensor.dtype.kind == "f" and not np.array_equal(made, tensor.data):
        raise ValueError(f"input {declared.described()} must hold whole numbers, not {tensor.dtype}")
    return Tensor(made)
