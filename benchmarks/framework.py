"""Forward and training step of the zoo and of a GPT-2-sized block: ours against PyTorch eager, one core.

    python -m benchmarks.framework [name ...]

Both run in one process pinned to one core, with one thread and the best BLAS each ships, in turns. The target is
at most 1.0 of PyTorch's time for MLP, GPT and block, and 2.0 for the CNN.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.table import Table
from torch.nn import functional

from benchmarks.conditions import one_core
from tinytorch import models
from tinytorch.core.dispatch import no_grad
from tinytorch.core.losses import CrossEntropyLoss
from tinytorch.core.module import Module
from tinytorch.core.optimizers import AdamW
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import TransformerBlock
from tinytorch.perf.engines.pytorch import twin_of
from tinytorch.perf.measuring import interleave, ratio


@dataclass(frozen=True)
class Case:
    """A model of ours, which PyTorch runs as its twin, with inputs, targets of a loss, and the ratio to reach."""

    name: str
    ours: Module
    inputs: np.ndarray[Any, Any]
    targets: np.ndarray[Any, Any] | None
    target: float


def cases() -> Iterator[Case]:
    """Yield every case, made from seeds."""
    draw = np.random.default_rng(0)
    for batch in (1, 64, 256):
        images, labels = draw.random((batch, 1, 8, 8), dtype=np.float32), draw.integers(0, 10, batch)
        yield Case(f"mlp, batch {batch}", models.mlp(), images, labels, 1.0)
    for batch in (1, 64):
        images, labels = draw.random((batch, 1, 8, 8), dtype=np.float32), draw.integers(0, 10, batch)
        yield Case(f"cnn, batch {batch}", models.cnn(), images, labels, 2.0)
    for batch in (1, 64):
        tokens, targets = draw.integers(0, 10, (batch, 20)), draw.integers(0, 10, (batch, 20))
        yield Case(f"gpt, batch {batch}", models.gpt(), tokens, targets, 1.0)
    for length in (128, 512):
        inputs = draw.standard_normal((1, length, 768), dtype=np.float32)
        yield Case(f"block 768, length {length}", TransformerBlock(768, 12), inputs, None, 1.0)


def forwards(case: Case) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return one forward pass without gradients of each, in eval mode."""
    ours, peer = case.ours.eval(), twin_of(case.ours).module.eval()
    our_input = Tensor(case.inputs) if case.inputs.dtype.kind == "f" else case.inputs
    peer_input = torch.tensor(case.inputs)

    def run_ours() -> Any:
        with no_grad():
            return ours(our_input)

    def run_peer() -> Any:
        with torch.no_grad():
            return peer(peer_input)

    return run_ours, run_peer


def steps(case: Case) -> tuple[Callable[[], Any], Callable[[], Any]]:
    """Return one training step of each: forward, loss, backward and AdamW, in train mode."""
    ours, peer = case.ours.train(), twin_of(case.ours).module.train()
    our_input = Tensor(case.inputs) if case.inputs.dtype.kind == "f" else case.inputs
    peer_input, peer_targets = torch.tensor(case.inputs), torch.tensor(case.targets if case.targets is not None else 0)
    loss = CrossEntropyLoss()
    our_optimizer = AdamW(ours.parameters(), lr=1e-4)
    peer_optimizer = torch.optim.AdamW(peer.parameters(), lr=1e-4)

    def run_ours() -> None:
        output = ours(our_input)
        value = output.mean() if case.targets is None else loss(output, case.targets)
        our_optimizer.zero_grad()
        value.backward()
        our_optimizer.step()

    def run_peer() -> None:
        output = peer(peer_input)
        flat = output.reshape(-1, output.shape[-1])
        value = output.mean() if case.targets is None else functional.cross_entropy(flat, peer_targets.reshape(-1))
        peer_optimizer.zero_grad()
        value.backward()
        peer_optimizer.step()

    return run_ours, run_peer


def main(wanted: list[str]) -> int:
    """Print the table of ratios; return 1 if the interval of one lies wholly above its target."""
    table = Table("case", "phase", "ours (ms)", "PyTorch (ms)", "ours / PyTorch", "target", "verdict")
    missed = 0
    with one_core() as conditions:
        torch.set_num_threads(1)
        for case in cases():
            if wanted and not any(case.name.startswith(name) for name in wanted):
                continue
            for phase, make in (("forward", forwards), ("step", steps)):
                ours, peer = make(case)
                both = interleave({"ours": ours, "peer": peer}, repeats=25, at_most_seconds=12)
                times = ratio(both["ours"], both["peer"])
                interval = times.interval
                verdict = (
                    "met" if interval.high <= case.target else "missed" if interval.low > case.target else "unclear"
                )
                missed += verdict == "missed"
                shown = f"{times.median:.2f} [{interval.low:.2f}, {interval.high:.2f}]"
                ms = [f"{both[side].median * 1e3:.3f}" for side in ("ours", "peer")]
                table.add_row(case.name, phase, *ms, shown, f"{case.target:.1f}", verdict)
    console = Console(width=110)
    blas = "MKL" if torch.backends.mkl.is_available() else "its own BLAS"
    console.print(conditions, f"PyTorch {torch.__version__} on {blas}.")
    console.print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
