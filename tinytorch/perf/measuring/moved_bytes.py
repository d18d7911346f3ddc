"""Bytes that NumPy's operators read and write, counted on those that run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tinytorch.core.op import Array


class _Counted(np.ndarray[Any, Any]):
    """An array that writes down the bytes of every ufunc that it goes through."""

    moved = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        plain = [each.view(np.ndarray) if isinstance(each, _Counted) else each for each in inputs]
        out = kwargs.get("out")
        if out is not None:
            kwargs["out"] = tuple(each.view(np.ndarray) for each in out)
        result = getattr(ufunc, method)(*plain, **kwargs)
        arrays = [each for each in plain if isinstance(each, np.ndarray) and each.ndim]
        _Counted.moved += sum(each.nbytes for each in arrays) + result.nbytes
        return out[0] if out is not None else result.view(_Counted)


def passes_bytes(function: Callable[[Array], Array], x: Array) -> int:
    """Return the bytes that the ufuncs of ``function(x)`` read and write: each array operand once, each result once."""
    _Counted.moved = 0
    function(x.view(_Counted))
    return _Counted.moved
