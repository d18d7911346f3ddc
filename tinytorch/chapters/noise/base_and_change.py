"""What a fresh process times; in a module of its own, so that a process loads little else."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tinytorch import models
from tinytorch.core.dispatch import no_grad
from tinytorch.core.module import Sequential

#: Examples in a call.
_BATCH = 64


class Checked(Sequential):
    """Layers one after the other, each of which looks for numbers that are not finite in what it has made."""

    def forward(self, x: Any) -> Any:
        """Return what the layers make of ``x``; raises ValueError if a number is not finite."""
        for layer in self.layers:
            x = layer(x)
            if not np.isfinite(x.data).all():
                raise ValueError("values must be finite, but some are not")
        return x


def base_and_change() -> Mapping[str, Callable[[], object]]:
    """Return a forward pass of the MLP, the same again, and one of the MLP with the check."""
    inputs = models.example("mlp", _BATCH)

    def forward_of(model: Sequential) -> Callable[[], object]:
        model.eval()

        def forward() -> object:
            with no_grad():
                return model(inputs)

        return forward

    every = {"base": models.mlp(), "again": models.mlp(), "changed": Checked(*models.mlp())}
    return {name: forward_of(model) for name, model in every.items()}
