"""A regression to catch: the zoo's MLP, and the same one after somebody made each layer check its numbers."""

from __future__ import annotations

import numpy as np

from tinytorch import models
from tinytorch.core.module import Module, Sequential
from tinytorch.core.tensor import Tensor
from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.benchmarking.results import Plan, Results
from tinytorch.perf.benchmarking.running import Side, run, started

#: Fresh processes of each run; five are the fewest that can tell.
PROCESSES = 6
#: Examples in a call.
BATCH = 64


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


def base() -> Module:
    """Return the MLP as it is."""
    return models.mlp()


def changed() -> Module:
    """Return the MLP with the check."""
    return Checked(models.mlp())


def measured_runs(processes: int = PROCESSES, repeats: int = 12) -> dict[str, Performance]:
    """Return three runs of the benchmark: ``base``, the same code ``again``, and ``changed``, by name.

    Each is made of fresh processes, which alternate, so that they are what a change and its base are in one job.

    Raises:
        RuntimeError: if a process fails.
    """
    entry = models.entry("mlp")
    shape = entry.example_input(1).shape[1:]
    module = __name__
    subjects = {"base": f"{module}:base", "again": f"{module}:base", "changed": f"{module}:changed"}
    plans = {
        name: Plan(subject, (BATCH,), processes=processes, repeats=repeats, input_shape=(1, *shape))
        for name, subject in subjects.items()
    }
    sides = [Side(started(plan, {}), _not_kept) for plan in plans.values()]
    return {name: next(iter(results.performances.values())) for name, results in zip(plans, run(sides), strict=True)}


def _not_kept(results: Results) -> None:
    """Write nothing: these runs are short enough to be begun anew."""
    del results
