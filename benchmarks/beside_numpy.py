"""Every op with a kernel, and every model of the zoo, beside plain NumPy: no case may be slower, on one thread or two.

    python -m benchmarks.beside_numpy [name ...]

Each op runs forward, and forward with backward, in shapes from a reader's first example to what no cache holds; models
run forward (also as a plan) and through training steps. Both sides take turns, on two threads after a pause: after a
product BLAS's threads look for work for a tenth of a second, and would take a core from what comes next. The target is
0.97 of NumPy's speed at least: a case is lost where the whole interval lies below it, open where only a part does.
"""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import copy_context
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from tinytorch import models
from tinytorch.core import ops
from tinytorch.core.dispatch import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Implementation, Op
from tinytorch.core.optimizers import AdamW
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import TransformerBlock
from tinytorch.perf.acceleration import accelerated, plan
from tinytorch.perf.host.blas import loaded_blas
from tinytorch.perf.host.pinned_threads import allowed_cores, may_pin, pinned_to
from tinytorch.perf.kernels.registry import kernel_implementations
from tinytorch.perf.measuring import blas_threads, interleave, ratio
from tinytorch.perf.ops import fused

LEAST = 0.97
#: How many rows and their width: of the zoo's models at one sample and 64, of GPT-2 small, of what no cache holds.
ROWS = ((1, 64), (20, 96), (64, 10), (1280, 96), (512, 768), (4096, 3072))
#: Rows, inputs and outputs of products.
PRODUCTS = (
    *((1, 64, 32), (64, 64, 32), (20, 96, 288), (1280, 96, 384)),
    *((1, 768, 3072), (128, 768, 768), (512, 768, 3072)),
)
#: Images, kernels, stride, padding and groups of convolutions.
CONVOLUTIONS = (
    ((1, 1, 8, 8), (8, 1, 3, 3), 1, 1, 1),
    ((64, 1, 8, 8), (8, 1, 3, 3), 1, 1, 1),
    ((64, 8, 4, 4), (16, 8, 3, 3), 1, 1, 1),
    ((1, 3, 112, 112), (64, 3, 7, 7), 2, 3, 1),
    ((1, 64, 56, 56), (64, 64, 3, 3), 1, 1, 1),
    ((1, 96, 28, 28), (24, 96, 1, 1), 1, 0, 1),
    ((1, 96, 56, 56), (96, 1, 3, 3), 1, 1, 96),
    ((8, 32, 28, 28), (32, 1, 3, 3), 2, 1, 32),
)
#: Batch, positions, heads and numbers a head of attention.
ATTENTIONS = ((1, 1, 4, 24), (1, 20, 4, 24), (64, 20, 4, 24), (4, 64, 4, 32), (1, 128, 12, 64), (1, 512, 12, 64))

#: Plain NumPy and what shall not be slower.
Both = tuple[Callable[[], Any], Callable[[], Any]]


@dataclass(frozen=True)
class OpCase:
    """Operands of an op; ``fixed`` are the positions of those without a gradient."""

    op: Op
    operands: tuple[Array, ...]
    params: dict[str, Any]
    fixed: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The op's name and its operands' shapes."""
        shapes = " ".join("x".join(map(str, each.shape)) for each in self.operands[:2])
        return f"{self.op.name} {shapes}{' causal' if self.params.get('causal') else ''}"

    def runs(self) -> Iterator[tuple[str, Both]]:
        """Yield each phase and its two sides."""
        kernel = kernel_implementations()[self.op]
        yield "forward", (self._forward(self.op.reference), self._forward(kernel))
        yield "with backward", (self._both(self.op.reference), self._both(kernel))

    def _forward(self, chosen: Implementation) -> Callable[[], Any]:
        return lambda: chosen.forward(False, *self.operands, **self.params)

    def _both(self, chosen: Implementation) -> Callable[[], Any]:
        needs = tuple(index not in self.fixed for index in range(len(self.operands)))
        output, _ = chosen.forward(True, *self.operands, **self.params)
        down = np.random.default_rng(1).standard_normal(np.shape(output), np.float32)

        def run() -> Any:
            _, saved = chosen.forward(True, *self.operands, **self.params)
            return chosen.backward(down, saved, needs, False)

        return run


def op_cases() -> Iterator[OpCase]:
    """Yield the cases of every op with a kernel that computes what NumPy does, made from seeds."""
    draw = np.random.default_rng(0)

    def normal(*shape: int) -> Array:
        return draw.standard_normal(shape, np.float32)

    for rows, width in ROWS:
        x, vector = normal(rows, width), normal(width)
        yield from (OpCase(op, (x,), {}) for op in (ops.gelu, ops.silu, ops.sigmoid, ops.tanh, ops.relu))
        yield OpCase(ops.dropout, (x,), {"probability": 0.1, "generator": np.random.default_rng(2)})
        yield OpCase(fused.bias_gelu, (x, vector), {})
        yield from (OpCase(op, (x,), {}) for op in (ops.softmax, ops.log_softmax, ops.max_))
        yield OpCase(ops.max_, (x,), {"axis": -1})
        yield OpCase(ops.leaky_relu, (x,), {"slope": 0.1})
        yield OpCase(ops.power, (x,), {"exponent": 3})
        yield OpCase(ops.mean_squared_error, (x, normal(rows, width)), {})
        yield OpCase(ops.embedding, (draw.integers(0, 500, rows), normal(500, width)), {}, fixed=(0,))
        yield OpCase(ops.layer_norm, (x, vector, vector), {"epsilon": 1e-5})
        yield OpCase(ops.cross_entropy, (x, draw.integers(0, width, rows)), {}, fixed=(1,))
    for rows, inputs, outputs in PRODUCTS:
        x, weight, bias = normal(rows, inputs), normal(inputs, outputs), normal(outputs)
        yield OpCase(ops.linear, (x, weight, bias), {})
        yield OpCase(fused.fused_linear, (x, weight, bias, normal(rows, outputs)), {"activation": "none"})
    for shape, kernel, stride, padding, groups in CONVOLUTIONS:
        params = {"stride": (stride,) * 2, "padding": (padding,) * 2, "dilation": (1, 1), "groups": groups}
        yield OpCase(ops.conv2d, (normal(*shape), normal(*kernel), normal(kernel[0])), params)
        channels = normal(shape[1])
        yield OpCase(ops.batch_norm, (normal(*shape), channels, channels), {"epsilon": 1e-5})
        yield OpCase(ops.adaptive_avg_pool2d, (normal(*shape),), {"size": (1, 1)})
        for op in (ops.max_pool2d, ops.avg_pool2d):
            yield OpCase(op, (normal(*shape),), {"kernel": (2, 2), "stride": (2, 2), "padding": (0, 0)})
    for batch, length, heads, depth in ATTENTIONS:
        for causal in (False, True):
            packed = normal(batch, length, 3 * heads * depth)
            yield OpCase(ops.self_attention, (packed,), {"heads": heads, "causal": causal})
            parts = tuple(normal(batch, heads, length, depth) for _ in range(3))
            yield OpCase(ops.attention, parts, {"causal": causal})
        yield OpCase(fused.causal_softmax, (normal(batch, heads, length, length),), {})


@dataclass(frozen=True)
class ModelCase:
    """A model with inputs, and targets of a loss, or None for the mean of its outputs."""

    name: str
    model: Module
    inputs: Array
    targets: Array | None

    def runs(self) -> Iterator[tuple[str, Both]]:
        """Yield each phase and its two sides."""
        x = Tensor(self.inputs) if self.inputs.dtype.kind == "f" else self.inputs
        self.model.eval()

        def forward() -> Any:
            with no_grad():
                return self.model(x)

        yield from _pair("forward", forward)
        planned = plan(self.model, x)
        yield "plan", (forward, lambda: planned(x))
        self.model.train()
        loss, optimizer = CrossEntropyLoss(), AdamW(self.model.parameters(), lr=1e-4)

        def step() -> None:
            output = self.model(x)
            value = output.mean() if self.targets is None else loss(output, self.targets)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()

        yield from _pair("training step", step)


def _pair(phase: str, run: Callable[[], Any]) -> Iterator[tuple[str, Both]]:
    """Yield a run as it is, and in a context of its own that is `accelerated` all the while, as around a program."""
    kernels, context = accelerated(), copy_context()
    context.run(kernels.__enter__)
    yield phase, (run, lambda: context.run(run))
    context.run(kernels.__exit__, None, None, None)


def model_cases() -> Iterator[ModelCase]:
    """Yield the models, made from seeds."""
    draw = np.random.default_rng(0)
    for batch in (1, 64):
        images, labels = draw.random((batch, 1, 8, 8), dtype=np.float32), draw.integers(0, 10, batch)
        yield ModelCase(f"mlp, batch {batch}", models.mlp(), images, labels)
        yield ModelCase(f"cnn, batch {batch}", models.cnn(), images, labels)
        tokens, targets = draw.integers(0, 10, (batch, 20)), draw.integers(0, 10, (batch, 20))
        yield ModelCase(f"gpt, batch {batch}", models.gpt(), tokens, targets)
    for length in (16, 128, 512):
        inputs = draw.standard_normal((1, length, 768), dtype=np.float32)
        yield ModelCase(f"block 768, length {length}", TransformerBlock(768, 12), inputs, None)
    yield ModelCase("linear 2048, 32 rows", Linear(2048, 2048), draw.random((32, 2048), np.float32), None)


@contextmanager
def pause() -> Iterator[None]:
    """Wait first for longer than BLAS's threads look for work."""
    time.sleep(0.15)
    yield


def lost(case: OpCase | ModelCase, threads: int, table: Table) -> tuple[int, int]:
    """Add a line for each phase that is not surely as fast as NumPy; return how many ran and how many are lost."""
    ran = missed = 0
    for phase, (plain, ours) in case.runs():
        first = nullcontext if threads == 1 else pause
        both = interleave(
            {"plain": plain, "ours": ours},
            repeats=20,
            at_most_seconds=1.0 if threads == 1 else 4.0,
            warmup_seconds=0.1,
            within={"plain": first, "ours": first},
        )
        found = ratio(both["plain"], both["ours"])
        ran += 1
        if found.interval.low >= LEAST:
            continue
        surely = found.interval.high < LEAST
        missed += surely
        us = [f"{both[side].median * 1e6:,.1f}" for side in ("plain", "ours")]
        shown = f"{found.median:.2f} [{found.interval.low:.2f}, {found.interval.high:.2f}]"
        table.add_row(case.name, phase, str(threads), *us, shown, "lost" if surely else "open")
    return ran, missed


def main(wanted: list[str]) -> int:
    """Print the cases that are lost or open; return 1 if any is lost."""
    table = Table("case", "phase", "threads", "NumPy (us)", "ours (us)", "NumPy / ours", "")
    cases: list[OpCase | ModelCase] = [*op_cases(), *model_cases()]
    cases = [case for case in cases if not wanted or case.name.startswith(tuple(wanted))]
    with one_core() as conditions:
        counts = [lost(case, 1, table) for case in cases]
    with blas_threads(2):
        counts += [lost(case, 2, table) for case in cases]
    console = Console(width=130)
    console.print(conditions)
    console.print(table)
    ran, missed = map(sum, zip(*counts, strict=True))
    unsure = table.row_count - missed
    console.print(f"{ran} cases: {missed} lost, {unsure} open, the others as fast as NumPy or faster.")
    return 1 if missed else 0


@contextmanager
def one_core() -> Iterator[str]:
    """Keep the process on its last core, if it may, with one BLAS thread; give a line that describes NumPy's BLAS."""
    where = "one core" if may_pin() else "not kept on a core"
    with pinned_to(allowed_cores()[-1:]), blas_threads(1):
        yield f"NumPy's BLAS: {', '.join(one.label() for one in loaded_blas())}, one thread, {where}."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
