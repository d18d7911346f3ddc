"""A regression to catch: the zoo's MLP, the same code again, and one whose layers check their numbers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tinytorch import models
from tinytorch.chapters.benchmarking.runs import forward
from tinytorch.core.module import Module, Sequential
from tinytorch.core.tensor import Tensor
from tinytorch.perf.measuring.comparison import Comparison
from tinytorch.perf.measuring.judge import bonferroni
from tinytorch.perf.measuring.measurement import CONFIDENCE
from tinytorch.perf.measuring.processes import Fresh, compare_in_processes

#: Examples in a call.
BATCH = 64
#: What a process calls its functions: the base, the same code again, and the change.
BASE, AGAIN, CHANGED = "base", "again", "changed"


class Checked(Module):
    """Layers one after the other, each of which looks for numbers that are not finite in what it has made."""

    def __init__(self, layers: Sequential) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: Tensor) -> Tensor:
        """Return what the layers make of ``x``; raises ValueError if a number is not finite."""
        for layer in self.layers:
            x = layer(x)
            if not np.isfinite(x.data).all():
                raise ValueError("values must be finite, but some are not")
        return x


#: Relative difference of time that a team would act on.
MATTERS = 0.1


def base_and_change() -> Mapping[str, Callable[[], object]]:
    """Return a forward pass of the MLP, the same again, and one of the MLP with the check: what a process times."""
    inputs = models.as_input(models.entry("mlp").example_input(BATCH))
    made = {BASE: models.mlp(), AGAIN: models.mlp(), CHANGED: Checked(models.mlp())}
    return {name: forward(model.eval(), inputs) for name, model in made.items()}


def judged_changes(found: Sequence[Fresh]) -> dict[str, Comparison]:
    """Return the base against itself and against the change, over processes; their intervals hold together."""
    others = (AGAIN, CHANGED)
    each = bonferroni(CONFIDENCE, len(others))
    return {
        name: compare_in_processes(found, BASE, name, MATTERS, confidence=each, compared=len(others)) for name in others
    }
