"""Kernels as defaults of ops: chosen without importing Numba, which is imported when such an op first runs."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from tinytorch.core.op import Array, Implementation, Op, Saved


def select_kernel(op: Op, family: str) -> None:
    """Select for ``op`` its kernel in the module ``family`` of this folder; without Numba the reference stays.

    The module's ``IMPLEMENTATIONS`` must hold ``op`` with the backward of its reference.
    """
    if find_spec("numba") is None:
        return

    @cache
    def found() -> Implementation:
        made: Implementation = import_module(f"{__package__}.{family}").IMPLEMENTATIONS[op]
        return made

    def forward(keep: bool, *arrays: Any, **params: Any) -> tuple[Array, Saved]:
        return found().forward(keep, *arrays, **params)

    op.selected = Implementation("numba", forward, op.reference.backward)
