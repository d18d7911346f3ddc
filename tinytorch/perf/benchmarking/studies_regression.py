"""A regression to catch: the zoo's MLP, and the same one after somebody made it check its numbers in every call."""

from __future__ import annotations

import numpy as np

from tinytorch import models
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.perf.benchmarking.performance import Performance
from tinytorch.perf.benchmarking.results import Plan, Results
from tinytorch.perf.benchmarking.running import Side, run, started

#: Fresh processes of each run; five are the fewest that can tell.
PROCESSES = 5
#: Examples in a call.
BATCH = 64


class Checked(Module):
    """A model that looks for numbers that are not finite in what goes in and what comes out."""

    def __init__(self, model: Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, x: Tensor) -> Tensor:
        """Return what the model makes of ``x``; raises ValueError if a number is not finite."""
        self._check(x)
        out: Tensor = self.model(x)
        self._check(out)
        return out

    def _check(self, values: Tensor) -> None:
        if not np.isfinite(values.data).all():
            raise ValueError("values must be finite, but some are not")


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
