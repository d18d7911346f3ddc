"""Plans: a model's forward recorded once, laid out in memory, and replayed by one call.

Where a model's arithmetic is short, most of its time goes to what lies between ops: Python, the seam, new arrays, the
call of each kernel. A plan pays for that once. It keeps a table with a row for each kernel, which holds the addresses
of its operands, and a compiled loop walks the table, as CUDA graphs and ``torch.compile(mode="reduce-overhead")`` do.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

from tinytorch.core import ops
from tinytorch.core.dispatch import is_observed, no_grad, unobserved
from tinytorch.core.module import Module, check_module
from tinytorch.core.op import Array, Op, Shape
from tinytorch.core.tensor import Tensor
from tinytorch.core.undisturbed import evaluating, undisturbed
from tinytorch.perf.acceleration.array_program import ArrayProgram, Stretch, as_outputs
from tinytorch.perf.acceleration.recorded_graph import Graph, array_of, as_input, difference, joined, record, tensors
from tinytorch.perf.kernels.plan_ops import conv_pool, elements, products, rows
from tinytorch.perf.kernels.plan_ops.binding import (
    ArrayStep,
    Binder,
    Buffer,
    Constants,
    EntryStep,
    RecordedOp,
    UnplannedError,
    Value,
    View,
    lay_out,
    new_arena,
    row_strides,
)
from tinytorch.perf.kernels.plan_ops.driver import HAS_CLOCK, replay
from tinytorch.perf.kernels.runtime import threads
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.between_run_variance import with_between_run_spread
from tinytorch.perf.onnx import OnnxModel

#: Floats of the intermediate results of a block of samples: half a second cache of 1 MiB.
_NEAR_FLOATS = 131_072
#: Nanoseconds of a block from which on threads do it together: at each step they wait for one another.
_WORTH_MEETING_NS = 200_000
#: Shapes of which a `Planned` keeps a plan.
_MOST_PLANS = 32
#: Largest difference between a plan's output and its model's, over the largest element: float32 sums in another order.
TOLERANCE = 5e-5
#: The same where numbers are rounded to codes: a last digit that falls to the other side moves one by a step of 8 bits.
CODE_TOLERANCE = 1 / 127
#: Ops that only see their operand otherwise, integers too.
_SEEING = (ops.reshape, ops.transpose, ops.getitem)


@cache
def bindings() -> dict[Op, Callable[[RecordedOp, Binder], View]]:
    """Return how each op that a plan can run is bound to an entry point."""
    return {**elements.BINDINGS, **conv_pool.BINDINGS, **products.BINDINGS, **rows.BINDINGS}


@dataclass(frozen=True)
class StepTime:
    """Seconds of one step of a plan: the ops that it does, and the module that they ran in."""

    name: str
    path: str
    seconds: Measurement


def together(steps: Sequence[StepTime], name: str) -> Measurement:
    """Return the seconds of several steps of one `ModulePlan.step_times`, repeat by repeat."""
    samples = zip(*(step.seconds.samples for step in steps), strict=True)
    return with_between_run_spread(Measurement(name, tuple(map(sum, samples)), "s"))


class _Block(Stretch):
    """The steps of a forward of ``samples`` samples; an index out of range sets ``status``."""

    def __init__(self, graph: Graph, constants: Constants, samples: int, status: Array) -> None:
        self.samples = samples
        binder = Binder(constants, status)
        (source,), (result,) = graph.sources, graph.results
        itemsize = 4 if source.dtype.kind == "f" else 8
        whole = (math.prod(source.shape) * itemsize, 4 * math.prod(result.shape))
        binder.place(source, _whole("input", source.shape, itemsize))
        for node in graph.nodes:
            binder.begin(node)
            binder.place(node.output, _bound(node, binder))
        _finish(binder, result)
        self.floats = lay_out(binder.buffers)
        steps = [step for step in binder.steps if isinstance(step, EntryStep)]
        super().__init__(steps, lambda: new_arena(self.floats), whole)

    def run(self, x: Array, out: Array) -> None:
        """Fill ``out`` for as many blocks of samples as ``x`` has, on several threads if that is worth it."""
        blocks = len(x) // self.samples
        if blocks > 1 or not self.meet(_WORTH_MEETING_NS, x, out):
            shares = threads.shares(blocks, self.ns * blocks)
            threads.split(replay, shares, self.ns * blocks / shares, self.frames(shares), x, out, blocks)

    def run_observed(self, x: Array, out: Array) -> None:
        """Fill ``out`` step by step through the seam, so that observers are told of each."""
        table, starts = self.table(), range(0, len(x), self.samples)
        for start in starts:
            # The output of a single block need not have an axis of samples.
            here = slice(start, start + self.samples) if len(starts) > 1 else ...
            for number, step in enumerate(self.steps):
                *reads, made = (table.array(view, x[here], out[here]) for view in (*step.reads, step.writes))
                self.observed(number, reads, made, x[here], out[here])


class BlockProgram:
    """A forward of one input and one output, all of whose ops have an entry point, in blocks of samples.

    Attributes:
        blocks: programs of a block, and of how many samples each is run; the last is of those that fill no block.
        steps, rounds: as of an `ArrayProgram`.
    """

    rounds = False

    def __init__(self, blocks: list[tuple[_Block, int]], shape: Shape) -> None:
        self.blocks, self.shape = blocks, shape
        self.steps = blocks[0][0].steps

    def _parts(self, x: Array, out: Array) -> Iterator[tuple[_Block, Array, Array]]:
        if len(self.blocks) == 1:  # whose output need not have an axis of samples
            yield self.blocks[0][0], x, out
            return
        start = 0
        for block, samples in self.blocks:
            yield block, x[start : start + samples], out[start : start + samples]
            start += samples

    def run(self, inputs: Sequence[Array], observed: bool = False) -> list[Array]:
        """Return the output; ``observed`` through the seam, so that observers are told of each step."""
        out = np.empty(self.shape, np.float32)
        for block, given, made in self._parts(inputs[0], out):
            (block.run_observed if observed else block.run)(given, made)
        return [out]

    def step_times(self, inputs: Sequence[Array]) -> list[tuple[EntryStep | ArrayStep, float]]:
        """Return the steps, and the nanoseconds of each for all samples."""
        found: list[tuple[EntryStep | ArrayStep, float]] = []
        for block, given, made in self._parts(inputs[0], np.empty(self.shape, np.float32)):
            times = np.sum([block.step_times(given, made, n) for n in range(len(given) // block.samples)], axis=0)
            found += zip(block.steps, times.tolist(), strict=True)
        return found


def _bound(node: RecordedOp, binder: Binder) -> View:
    """Bind a node to an entry point; raise UnplannedError if none runs it."""
    if node.op not in bindings():
        raise binder.refuse("has no entry point")
    _check_dtypes(node, binder)
    return bindings()[node.op](node, binder)


def _finish(binder: Binder, value: Value) -> None:
    """Have the result written to the output: by the step that makes it if that fills a buffer, or by a copy.

    Raises:
        ValueError: if no step makes it.
    """
    if not binder.steps:
        raise ValueError(
            "cannot make a plan: no op of the model connects its input to its output; compute the output with ops"
        )
    result = binder.view(value)
    buffer = result.buffer
    if buffer.kind == "arena" and result.is_contiguous and not buffer.before and buffer.floats == result.size:
        buffer.kind = "output"
        return
    source = binder.contiguous(result) if result.source is not None else result
    binder.copy(source, _whole("output", result.shape, 4))


def _whole(kind: Literal["input", "output"], shape: Shape, itemsize: int) -> View:
    """Return a view of the input or the output of a block."""
    return View(Buffer(kind, math.prod(shape)), 0, shape, row_strides(shape), None, itemsize)


def _check_dtypes(node: RecordedOp, binder: Binder) -> None:
    """Raise unless an op makes float32 of float32, or picks by integers."""
    values = [each for each in (*node.operands, node.output) if isinstance(each, Value)]
    wrong = [str(each.dtype) for each in values if each.dtype != np.float32]
    sees = node.op in _SEEING and values[0].dtype == values[-1].dtype and values[0].dtype.kind in "iub"
    if wrong and node.op is not ops.embedding and not sees:
        raise binder.refuse(f"reads or makes {wrong[0]}, and a plan computes in float32")


class ModulePlan(Module):
    """A model's forward as a table of kernel calls, for inference; made by `plan`.

    It is frozen as it was recorded: shapes and dtypes of the inputs, the ops that ran and so every branch that was
    taken, eval mode, and the weights, which it copied. What changes later in the model does not show. Each thread that
    runs blocks of samples has intermediate results of its own, but a plan itself may be called by one thread at a time.

    Under observers it runs step by step through the seam, one op a step, and a profiler sees each; see also
    `step_times`.
    """

    def __init__(self, program: BlockProgram | ArrayProgram, inputs: Sequence[Array], status: Array) -> None:
        self.training = False
        self.program, self._status = program, status
        self._specs = [(each.shape, each.dtype) for each in inputs]
        self._only: tuple[Array, Shape, np.dtype[Any], Shape] | None = None
        if isinstance(program, BlockProgram) and len(program.blocks) == 1:
            (block, samples) = program.blocks[0]
            # A single block needs no threads, and where a call is short their questions would show.
            if samples == block.samples and block.ns <= _WORTH_MEETING_NS:
                self._only = (block.frames(1), *self._specs[0], program.shape)

    def forward(self, x: Any, *others: Any) -> Any:
        """Return the model's output for inputs of the recorded shapes and dtypes; a tuple if there are several.

        Raises:
            ValueError: if there are more or fewer inputs, or one has another shape or dtype.
            IndexError: if an index is out of its table's range.
        """
        if self._only is not None and not others and not is_observed():
            array = x.data if x.__class__ is Tensor else array_of(x)
            frames, shape, dtype, output = self._only
            if array.shape != shape or array.dtype != dtype or not array.flags.c_contiguous:
                array = _fitting(array, shape, dtype)
            made = np.empty(output, np.float32)
            replay(0, 1, frames, array, made, 1)
            if self._status[0]:
                self._raise_out_of_range()
            return Tensor._made(made, None)
        outputs = self.program.run(self._fitted([x, *others]), is_observed())
        if self._status[0]:
            self._raise_out_of_range()
        return as_outputs(outputs)

    def _fitted(self, inputs: Sequence[Any]) -> list[Array]:
        count = len(self._specs)
        if len(inputs) != count:
            counts = f"{count} input{'' if count == 1 else 's'}, not {len(inputs)}"
            raise ValueError(f"this plan was made for {counts}: give plan an example of each")
        return [_fitting(array_of(each), *spec) for each, spec in zip(inputs, self._specs, strict=True)]

    def _raise_out_of_range(self) -> None:
        self._status[0] = 0
        raise IndexError("x must hold indices within the rows of the embedding that they pick, and one does not")

    def step_times(self, *inputs: Any, repeats: int = 9) -> list[StepTime]:
        """Return the seconds of each step, run in a row as a call runs them, on one thread.

        A look at the clock after each step, about 20 ns, is in its time.

        Raises:
            RuntimeError: if this system has no clock that compiled code can read.
        """
        if not HAS_CLOCK:
            raise RuntimeError(
                "step_times needs the POSIX clock, which this system does not have: use a profiler instead"
            )
        arrays, found = self._fitted(inputs), []
        for same in zip(*(self.program.step_times(arrays) for _ in range(repeats)), strict=True):
            step, samples = same[0][0], tuple(1e-9 * ns for _, ns in same)
            seconds = with_between_run_spread(Measurement(step.name, samples, "s"))
            found.append(StepTime(step.name, step.path, seconds))
        return found

    def __deepcopy__(self, memo: dict[int, Any]) -> ModulePlan:
        """Return this one: its tables hold addresses, and it does not change."""
        return self

    def __reduce__(self) -> Any:
        raise TypeError(
            "a plan cannot be pickled, because it holds addresses of this process: make it in the process that runs it"
        )

    def _described(self) -> str:
        shapes = ", ".join(str(shape) for shape, _ in self._specs)
        return f"{shapes}: {', '.join(step.name for step in self.program.steps)}"


def _fitting(array: Array, shape: Shape, dtype: np.dtype[Any]) -> Array:
    """Return an input of the recorded shape in C order; raise ValueError if it has another."""
    if array.shape != shape or array.dtype.kind != dtype.kind:
        raise ValueError(
            f"x must have shape {shape} and dtype {dtype} as the example had, not {array.shape} and {array.dtype}: "
            "make another plan for it"
        )
    return np.ascontiguousarray(array, dtype)


class Planned(Module):
    """A copy of a model for inference that makes a `plan` for each shape of input and keeps the last few.

    Its parameters are those of ``model`` and require no gradient.
    """

    worked_out = ("_plans",)

    def __init__(self, model: Module) -> None:
        self.model = copy.deepcopy(model).eval()
        for parameter in self.model.parameters():
            parameter.requires_grad = False
        self.training = False
        self._plans: dict[tuple[tuple[Shape, str], ...], ModulePlan] = {}
        self._constants = Constants()

    def forward(self, *inputs: Any) -> Any:  # type: ignore[override, unused-ignore]
        """Return the model's output; for new shapes a plan is made first, which takes longer than a call."""
        key = tuple((array.shape, array.dtype.kind) for array in map(array_of, inputs))
        made = self._plans.pop(key, None) or _made(self.model, inputs, self._constants)
        self._plans[key] = made  # the last one used comes last
        if len(self._plans) > _MOST_PLANS:
            del self._plans[next(iter(self._plans))]
        return made.forward(*inputs)

    def _named_values(self) -> Iterator[tuple[str, Any]]:
        """Yield the model alone: plans hold copies."""
        yield "model", self.model


def plan(model: Module, *examples: Any) -> ModulePlan:
    """Return a plan of ``model`` for inputs of the shapes and dtypes of ``examples``: one compiled call a forward.

    The forward is recorded by dispatch, in eval mode. What depends on no input is computed now; weights are copied and
    packed as kernels read them; batch normalization goes into a convolution, bias, activation and residual sum into a
    product; and intermediate results share one arena by their lives. Where samples do not depend on one another, which
    is tried, as many go through all steps together as stay in a near cache, and blocks of samples may run on several
    threads; a long forward of a single block is divided step by step. The plan is compared with the model on the
    example and on other orders and signs of its numbers: an array that depends on the input outside of ops is found so,
    and a branch that one of them takes.

    An op that no entry point runs, such as a product of codes, runs between the others by its fastest implementation.
    With such an op, or several inputs or outputs, all samples go through together.

    Args:
        model: any module whose forward returns a Tensor, or a tuple of them.
        examples: each of its inputs, Tensor or array: floats become a Tensor, integers are given as they are.

    Raises:
        ValueError: if an example holds nothing or one is missing, or the plan computes something else than the model.
        TypeError: if ``model`` is not a Module, or returns no Tensor.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.models import example, mlp
        >>> from tinytorch.perf.acceleration.plans import plan
        >>> model, x = mlp().eval(), example("mlp", 4)
        >>> planned = plan(model, x)
        >>> np.allclose(planned(x).numpy(), model(x).numpy(), atol=1e-5)
        True
    """
    return _made(model, examples, Constants())


def _made(model: Module, examples: Sequence[Any], constants: Constants) -> ModulePlan:
    """Return a plan that prepares what it needs among ``constants``, where other plans of the model may find it."""
    check_module(model)
    inputs = _checked_examples(model, examples)
    with undisturbed(model), evaluating(model), unobserved():
        made = _planned(model, inputs, constants)
        for others in zip(*map(_variants, inputs), strict=True):
            _check(made, model, others)
    return made


def _checked_examples(model: Module, examples: Sequence[Any]) -> list[Array]:
    """Return the examples as arrays of the dtypes that a plan is recorded with."""
    declared = model.inputs if isinstance(model, OnnxModel) else ()
    if declared and len(examples) != len(declared):
        named = "; ".join(each.described() for each in declared)
        raise ValueError(
            f"examples must be one for each of the model's {len(declared)} inputs ({named}), not {len(examples)}: "
            "model.example() makes all of them"
        )
    inputs = []
    for number, example in enumerate(examples):
        x = np.ascontiguousarray(array_of(example))
        kind: np.dtype[Any] = declared[number].dtype if declared else _DTYPES.get(x.dtype.kind, x.dtype)
        inputs.append(x.astype(kind, copy=False))
    if not inputs or not inputs[0].ndim or not all(x.size for x in inputs):
        shapes = ", ".join(str(x.shape) for x in inputs) or "none"
        raise ValueError(f"example must hold at least one sample along its first axis, not be of shape {shapes}")
    return inputs


#: What a plan is recorded with, by kind.
_DTYPES: dict[str, np.dtype[Any]] = {"f": np.dtype(np.float32), "i": np.dtype(np.int64), "u": np.dtype(np.int64)}


def _variants(x: Array) -> tuple[Array, Array, Array]:
    """Return an input, its numbers in another order, and with other signs or backwards."""
    shuffled = np.random.default_rng(0).permutation(x.reshape(-1)).reshape(x.shape)
    return x, shuffled, -shuffled if x.dtype.kind == "f" else x[..., ::-1].copy() if x.ndim else x


def _planned(model: Module, inputs: list[Array], constants: Constants) -> ModulePlan:
    x, expected, status = inputs[0], _run(model, inputs), np.zeros(1, np.int64)
    if len(inputs) == len(expected) == 1 and expected[0].dtype == np.float32 and x.dtype in _DTYPES.values():
        try:
            return ModulePlan(_in_blocks(model, x, expected[0], constants, status), inputs, status)
        except UnplannedError:
            pass
    program = ArrayProgram(_recorded(model, inputs), _bound, Binder(constants, status), _WORTH_MEETING_NS)
    return ModulePlan(program, inputs, status)


def _in_blocks(model: Module, x: Array, expected: Array, constants: Constants, status: Array) -> BlockProgram:
    """Return the program of one input and output, all of whose ops have an entry point.

    Raises:
        UnplannedError: if one has none.
    """

    def of(samples: Array) -> _Block:
        return _Block(_recorded(model, [samples]), constants, len(samples), status)

    block = len(x)
    if block > 1 and _is_independent(model, x, expected):
        most = max(1, _NEAR_FLOATS // max(of(x[:1]).floats, 1))
        block = -(-block // -(-block // most))  # blocks of nearly one size
    whole = len(x) // block * block
    rest = [(of(x[whole:]), len(x) - whole)] if whole < len(x) else []
    return BlockProgram([(of(x[:block]), whole), *rest], expected.shape)


def _run(model: Module, inputs: Sequence[Array]) -> list[Array]:
    with no_grad():
        return [each.data for each in tensors(model(*map(as_input, inputs)))]


def _recorded(model: Module, inputs: Sequence[Array]) -> Graph:
    return joined(record(model, inputs, [*map(as_input, inputs)]))


def _is_independent(model: Module, x: Array, expected: Array) -> bool:
    """Return whether each sample's output is the same without the others, to rounding."""
    if expected.ndim == 0 or len(expected) != len(x):
        return False
    try:
        alone = np.concatenate([*_run(model, [x[:1]]), *_run(model, [x[1:]])])
    except (ValueError, IndexError):  # a model need not take fewer samples: shapes or places in them are its own
        return False
    return alone.shape == expected.shape and difference(alone, expected) <= TOLERANCE


def _check(made: ModulePlan, model: Module, inputs: Sequence[Array]) -> None:
    """Raise ValueError unless the plan does what the model does."""
    with np.errstate(all="ignore"):  # other signs may be outside of what an op is defined for
        expected = _run(model, inputs)
    found = tensors(made(*inputs))
    most = CODE_TOLERANCE if made.program.rounds else TOLERANCE
    alike = len(found) == len(expected) and all(
        each.shape == other.shape and difference(each.data, other) <= most
        for each, other in zip(found, expected, strict=True)
    )
    if not alike:
        raise ValueError(
            "model must run the same ops for every input, but its plan computes something else: a branch or an array "
            "in its forward pass depends on the input outside of ops"
        )
