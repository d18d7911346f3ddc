"""Agreement: what all ranks must have in common is compared before the first step, and the first difference is told."""

from __future__ import annotations

import hashlib
import platform
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tinytorch.core.module import Module
from tinytorch.perf.distributed.ranks.communicator import Communicator

_PACKAGE = Path(__file__).parents[3]


@cache
def code_version(package: Path = _PACKAGE) -> str:
    """Return a hash of the source of the whole package, or of the one in another folder."""
    digest = hashlib.sha256()
    for source in sorted(package.rglob("*.py")):
        digest.update(source.relative_to(package).as_posix().encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def model_facts(model: Module) -> dict[str, Any]:
    """Return shape and dtype of each parameter and buffer by name, as JSON can hold them."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return {f"shape of {name}": [list(tensor.shape), str(tensor.dtype)] for name, tensor in tensors}


def check_agreement(communicator: Communicator, facts: dict[str, Any]) -> None:
    """Return if every rank gives the same facts, and runs the same versions; all ranks call it.

    Args:
        facts: what has to be the same, by the words that an error shall use; values that JSON can hold.

    Raises:
        ValueError: on every rank, with the first fact that differs from rank 0's, the rank, and both values.
    """
    versions = {
        "version of Python": platform.python_version(),
        "version of NumPy": np.__version__,
        "source of tinytorch": code_version(),
    }
    everyone = communicator.exchange({**versions, **facts})
    first = everyone[0]
    for rank, other in enumerate(everyone):
        for name in [*first, *sorted(other.keys() - first.keys())]:
            if name not in other or name not in first or first[name] != other[name]:
                raise ValueError(
                    f"all ranks must agree on the {name}, but it is {first.get(name, 'nothing')!r} on "
                    f"{communicator.places[0]} and {other.get(name, 'nothing')!r} on {communicator.places[rank]}"
                )
