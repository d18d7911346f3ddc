"""Counting arithmetic: by closed formulas of layers, and exactly on the ops that a model really ran."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, Self, overload

from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import checked_positive
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Shape, UncountedError, whole_numbers
from tinytorch.core.ops.spatial import output_positions
from tinytorch.core.spatial import Size, pair
from tinytorch.core.tensor import Tensor
from tinytorch.core.undisturbed import undisturbed
from tinytorch.perf.events.stream import Event, Profile, recording
from tinytorch.perf.measuring.model_io import callable_of, input_for
from tinytorch.perf.measuring.text_table import Column, print_table, whole

#: What to do about an op that declares no formula.
Uncounted = Literal["raise", "list"]
#: What is said of a count that nobody knows.
NOT_COUNTED = "not counted"


class NotCounted(float):
    """A count that nobody knows: NaN, which says "not counted" in whatever format it is printed."""

    def __new__(cls) -> Self:
        """Return the one value that it has."""
        return super().__new__(cls, math.nan)

    def __format__(self, spec: str) -> str:
        return NOT_COUNTED

    def __str__(self) -> str:
        return NOT_COUNTED

    __repr__ = __str__


@dataclass(frozen=True, slots=True)
class CountRow:
    """The arithmetic of one layer or of one op of one module.

    ``macs`` are multiply-accumulates of contractions, ``elementwise`` every other arithmetic operation. Both are None
    for an op without a formula.
    """

    name: str
    op: str
    phase: str
    calls: int
    macs: int | None
    elementwise: int | None

    @property
    def flops(self) -> int | None:
        """Twice the multiply-accumulates."""
        return None if self.macs is None else 2 * self.macs


COLUMNS = (
    Column("name", "layer", numeric=False),
    Column("op", "op", numeric=False),
    Column("phase", "phase", numeric=False),
    Column("calls", "calls", whole),
    Column("macs", "MACs", whole),
    Column("flops", "FLOPs", whole),
    Column("elementwise", "elementwise", whole),
)


def record_forward(model: Any, value: Tensor, timed: bool = False) -> Profile:
    """Run ``model`` once on ``value`` without gradients and return what ran; the model is left as it was.

    ``timed`` says whether its times will be looked at, and not only its counts. What is no Module may run no op: then
    what it computes is not counted.

    Raises:
        ValueError: if a Module ran no op, because then there is nothing that could be counted.
    """
    run = callable_of(model)
    with undisturbed(model), no_grad(), recording(timed) as done:
        run(value)
    if isinstance(model, Module):
        _check_ran(done.profile, model)
    return done.profile


def record_training(
    model: Any, value: Tensor, loss_fn: Callable[[Any], Tensor] | None = None, timed: bool = False
) -> Profile:
    """Run ``model`` and the backward of its loss (the sum of its outputs if ``loss_fn`` is None) once.

    Raises:
        ValueError: if no op ran.
        TypeError: if the loss is not a Tensor of one element.
    """
    run = callable_of(model)
    with undisturbed(model), recording(timed) as done:
        loss_of(run(value), loss_fn).backward()
    _check_ran(done.profile, model)
    return done.profile


def loss_of(output: Any, loss_fn: Callable[[Any], Tensor] | None) -> Tensor:
    """Return ``loss_fn(output)``, or the sum of the output if there is no ``loss_fn``.

    Raises:
        TypeError: if that is not a Tensor of one element.
    """
    if loss_fn is None:
        if not isinstance(output, Tensor):
            raise TypeError(f"model must return a Tensor, not {type(output).__name__}: pass a loss_fn that takes it")
        return output.sum()
    loss = loss_fn(output)
    if not isinstance(loss, Tensor) or loss.size != 1:
        raise TypeError(f"loss_fn must return a Tensor of one element, not {type(loss).__name__}")
    return loss


def _check_ran(profile: Profile, model: Any) -> None:
    if not profile.events:
        raise ValueError(f"{type(model).__name__} ran no op of the framework, so its FLOPs cannot be counted")


def check_counted(profile: Profile) -> None:
    """Raise UncountedError, naming the ops, if one of them declares no formula."""
    if profile.uncounted:
        names = ", ".join(profile.uncounted)
        raise UncountedError(f"op {names} declares no work formula, so the FLOPs of this run cannot be counted")


def flops_of(profile: Profile, phase: str | None = None) -> int:
    """Return the FLOPs of all events, or of those of one phase.

    Raises:
        UncountedError: if an op declares no formula.
    """
    check_counted(profile)
    return sum(event.flops or 0 for event in profile.events if phase is None or event.phase == phase)


class FLOPCounter:
    """Adds up FLOPs (2 for each multiply-accumulate, contractions only) until `reset`.

    Every ``count_*`` returns the FLOPs of its own layer or model and adds rows, which sum to ``total_flops``.
    Bias, activations and normalization are in the rows' ``elementwise``, never in FLOPs.

    Args:
        uncounted: ``"raise"`` refuses a model with an op that has no formula; ``"list"`` gives it a row
            without numbers and its name in ``uncounted_ops``.

    Examples:
        >>> from tinytorch import Linear
        >>> from tinytorch.perf.profiling import FLOPCounter
        >>> counter = FLOPCounter()
        >>> counter.count_linear(512, 512, batch_size=1)  # two for each multiply-accumulate
        524288
        >>> counter.count_conv2d(8, 8, 1, 16, kernel_size=3, padding=1)
        18432
        >>> counter.total_flops
        542720
        >>> FLOPCounter().count_model_forward(Linear(512, 512), (32, 512)) == 32 * 524288
        True
    """

    def __init__(self, uncounted: Uncounted = "raise") -> None:
        if uncounted not in ("raise", "list"):
            raise ValueError(f"uncounted must be 'raise' or 'list', not {uncounted!r}")
        self._uncounted = uncounted
        self._rows: list[CountRow] = []

    def reset(self) -> None:
        """Set all counts to 0."""
        self._rows = []

    @property
    def rows(self) -> tuple[CountRow, ...]:
        """Every row counted since the last `reset`."""
        return tuple(self._rows)

    @property
    def total_macs(self) -> int:
        """Multiply-accumulates of all rows."""
        return sum(row.macs or 0 for row in self._rows)

    @property
    def total_flops(self) -> int:
        """FLOPs of all rows."""
        return sum(row.flops or 0 for row in self._rows)

    @property
    def total_elementwise(self) -> int:
        """Elementwise operations of all rows."""
        return sum(row.elementwise or 0 for row in self._rows)

    @property
    def uncounted_ops(self) -> tuple[str, ...]:
        """Names of ops that ran and have no formula; their work is in no sum."""
        return tuple(sorted({row.op for row in self._rows if row.flops is None}))

    @property
    def operation_counts(self) -> dict[str, int]:
        """FLOPs by kind: ``multiply`` and ``add`` of contractions, equal in number, and ``total_flops``, their sum."""
        return {"multiply": self.total_macs, "add": self.total_macs, "total_flops": self.total_flops}

    @property
    def layer_breakdown(self) -> dict[str, int]:
        """FLOPs by op, such as ``linear``; the values sum to ``total_flops``. `breakdown` has them by layer.

        All that `count_attention` counts, the projections too, is ``attention``.
        """
        parts: dict[str, int] = {}
        for row in self._rows:
            parts[row.op] = parts.get(row.op, 0) + (row.flops or 0)
        return parts

    def breakdown(self) -> dict[str, int]:
        """Return FLOPs by layer; the values sum to ``total_flops``."""
        parts: dict[str, int] = {}
        for row in self._rows:
            if row.flops is not None:
                parts[row.name] = parts.get(row.name, 0) + row.flops
        return parts

    @whole_numbers
    def count_linear(self, input_features: int, output_features: int, batch_size: int = 1) -> int:
        """Return FLOPs of (batch_size, input_features) times a weight: 2 B I O; the bias is B O elementwise.

        ``batch_size`` counts rows: batch times positions for a sequence.
        """
        checked_positive(input_features=input_features, output_features=output_features, batch_size=batch_size)
        outputs = batch_size * output_features
        return self._add(f"linear {input_features}→{output_features}", "linear", outputs * input_features, outputs)

    @whole_numbers
    def count_conv2d(
        self,
        input_height: int,
        input_width: int,
        input_channels: int,
        output_channels: int,
        kernel_size: Size,
        batch_size: int = 1,
        stride: Size = 1,
        padding: Size = 0,
        dilation: Size = 1,
        groups: int = 1,
    ) -> int:
        """Return FLOPs of a convolution: 2 N O oh ow (C / groups) kh kw, with

        oh = floor((H + 2 padding - dilation (kh - 1) - 1) / stride) + 1, and ow alike. Zeros of the padding are
        multiplied like the rest; the bias is one elementwise operation an output.

        Raises:
            ValueError: if the kernel fits nowhere, or ``groups`` does not divide both numbers of channels.
        """
        checked_positive(
            input_height=input_height,
            input_width=input_width,
            input_channels=input_channels,
            output_channels=output_channels,
            batch_size=batch_size,
            groups=groups,
        )
        if input_channels % groups or output_channels % groups:
            raise ValueError(
                f"groups must divide {input_channels} input and {output_channels} output channels, but is {groups}"
            )
        kernel = pair(kernel_size, "kernel_size")
        rows, columns = output_positions(
            (input_height, input_width),
            kernel,
            pair(stride, "stride"),
            pair(padding, "padding", 0),
            pair(dilation, "dilation"),
        )
        outputs = batch_size * output_channels * rows * columns
        name = f"conv2d {input_channels}→{output_channels} {kernel[0]}×{kernel[1]}"
        return self._add(name, "conv2d", outputs * (input_channels // groups) * kernel[0] * kernel[1], outputs)

    @whole_numbers
    def count_attention(
        self,
        sequence_length: int | None = None,
        d_model: int | None = None,
        batch_size: int = 1,
        *,
        projections: bool = True,
        seq_len: int | None = None,
    ) -> int:
        """Return FLOPs of self-attention over ``sequence_length`` positions, whatever the number of heads.

        ``seq_len`` is another spelling of ``sequence_length``.

        Scores q kᵀ and the weighted sum of values take 2 B T² d each. With ``projections`` those of queries,
        keys, values and output are added, 2 B T d² each. The whole square of scores is counted, also where a
        causal mask hides half of it, because it is computed.

        Raises:
            TypeError: if ``d_model`` is missing, or not exactly one spelling of the length is given.
            ValueError: if a size is not a whole number above 0.
        """
        if d_model is None or (sequence_length is None) == (seq_len is None):
            raise TypeError("count_attention takes d_model and the positions, as sequence_length or as seq_len")
        sequence_length = seq_len if sequence_length is None else sequence_length
        assert sequence_length is not None
        checked_positive(sequence_length=sequence_length, d_model=d_model, batch_size=batch_size)
        product = batch_size * sequence_length * sequence_length * d_model
        name = f"attention T={sequence_length} d={d_model}"
        total = self._add(f"{name}: scores", "attention", product, 0)
        total += self._add(f"{name}: weighted values", "attention", product, 0)
        if projections:
            rows = batch_size * sequence_length * d_model
            total += self._add(f"{name}: queries, keys, values", "attention", 3 * rows * d_model, 3 * rows)
            total += self._add(f"{name}: output", "attention", rows * d_model, rows)
        return total

    @whole_numbers
    def count_transformer(
        self, vocab_size: int, embed_dim: int, num_layers: int, seq_len: int, batch_size: int = 1, mlp_ratio: int = 4
    ) -> int:
        """Return FLOPs of the forward pass of a GPT by formula, without running it.

        Each layer is attention with its projections and two products of the MLP, 2 B T d (r d) each; the
        vocabulary's projection is 2 B T d V. Elementwise operations are only those of biases here.
        """
        checked_positive(vocab_size=vocab_size, embed_dim=embed_dim, num_layers=num_layers, mlp_ratio=mlp_ratio)
        checked_positive(seq_len=seq_len, batch_size=batch_size)
        rows, hidden = batch_size * seq_len, mlp_ratio * embed_dim
        total = 0
        for _ in range(num_layers):
            total += self.count_attention(seq_len, embed_dim, batch_size)
            total += self.count_linear(embed_dim, hidden, rows) + self.count_linear(hidden, embed_dim, rows)
        product = rows * embed_dim * vocab_size
        return total + self._add(f"vocabulary {embed_dim}→{vocab_size}", "linear", product, 0)

    @overload
    def count_model_forward(self, model: Module, input_shape: Shape | Tensor | Array) -> int: ...
    @overload
    def count_model_forward(self, model: Callable[..., Any], input_shape: Shape | Tensor | Array) -> int | float: ...
    def count_model_forward(self, model: Any, input_shape: Shape | Tensor | Array) -> float:
        """Return FLOPs of a forward pass of ``model`` on an input, or on zeros of its shape, which includes the batch.

        The model really runs, on whole numbers where its first module is an Embedding, and every op is counted by its
        own formula on the shapes that came by. What a model computes outside of ops is not seen. What is not a Module
        and runs no op gets a row without numbers, and the answer is a NaN that prints as "not counted".

        Raises:
            UncountedError: if an op has no formula, unless the counter lists these.
            ValueError: if the shape is none, or a Module ran no op.
        """
        profile = record_forward(model, input_for(model, input_shape))
        if not profile.events:
            name = getattr(model, "__name__", type(model).__name__)
            self._rows.append(CountRow(name, name, "forward", 1, None, None))
            return NotCounted()
        return self.count_run(profile)

    def count_model_backward(
        self, model: Any, input_shape: Shape | Tensor | Array, loss_fn: Callable[[Any], Tensor] | None = None
    ) -> int:
        """Return FLOPs of one backward pass that really ran, from the sum of the outputs or from ``loss_fn``.

        Only gradients that are wanted are computed and counted: those of the parameters, and not that of the
        input. Errors are those of `count_model_forward`.
        """
        return self.count_run(record_training(model, input_for(model, input_shape), loss_fn), "backward")

    def count_run(self, profile: Profile, phase: str | None = None) -> int:
        """Return FLOPs of the ops of a recorded run, or of those of one phase.

        Raises:
            UncountedError: if an op has no formula, unless the counter lists these.
        """
        if self._uncounted == "raise":
            check_counted(profile)
        rows = counted_rows(profile, phase)
        self._rows += rows
        return sum(row.flops or 0 for row in rows)

    def print_report(self, name: str = "Model") -> None:
        """Print every row and the totals."""
        notes = [
            f"{name}: {self.total_flops:,} FLOPs ({self.total_macs:,} MACs), "
            f"{self.total_elementwise:,} elementwise operations"
        ]
        if self.uncounted_ops:
            notes.append(f"uncounted, in no sum: {', '.join(self.uncounted_ops)}")
        print_table(self.rows, COLUMNS, notes)

    def _add(self, name: str, op: str, macs: int, elementwise: int) -> int:
        self._rows.append(CountRow(name, op, "forward", 1, macs, elementwise))
        return 2 * macs


def counted_rows(profile: Profile, phase: str | None = None) -> list[CountRow]:
    """Return one row for each op of each module and phase, in order of first appearance."""
    groups: dict[tuple[str, str, str], list[Event]] = {}
    for event in profile.events:
        if phase is None or event.phase == phase:
            groups.setdefault((event.path, event.op, event.phase), []).append(event)
    rows = []
    for (path, op, named_phase), events in groups.items():
        works = [event.work for event in events if event.work is not None]
        known = len(works) == len(events)
        macs = sum(work.macs for work in works) if known else None
        elementwise = sum(work.elementwise for work in works) if known else None
        rows.append(CountRow(path, op, named_phase, len(events), macs, elementwise))
    return rows
