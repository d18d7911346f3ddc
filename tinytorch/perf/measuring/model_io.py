"""A model as the instruments use it: called, and fed with zeros of a shape or the arrays of a file."""

from __future__ import annotations

import zipfile
from collections.abc import Callable, Iterator
from types import FunctionType
from typing import Any

import numpy as np

from tinytorch.core.layers import Embedding
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Shape
from tinytorch.core.tensor import Tensor

#: Bytes in a MiB, the unit of every ``*_mb`` key.
MIB = 2**20


def callable_of(model: Any) -> Callable[..., Any]:
    """Return what runs ``model``: itself if it can be called, else its ``forward``.

    Raises:
        TypeError: if it has neither.
    """
    if callable(model):
        return model
    forward = getattr(model, "forward", None)
    if callable(forward):
        return forward
    raise TypeError(f"model must be callable or have a forward() method, but {type(model).__name__} has neither")


def saved_arrays(path: str, name: str) -> dict[str, Array]:
    """Return the arrays that `numpy.savez` wrote to ``path``, by their names.

    Raises:
        ValueError: if it is no such file; ``name`` is what was given.
        OSError: if it cannot be read.
    """
    try:
        with np.load(path, allow_pickle=False) as found:
            if isinstance(found, np.lib.npyio.NpzFile) and found.files:
                return {key: found[key] for key in found.files}
    except (ValueError, AttributeError, EOFError, zipfile.BadZipFile):  # whose advice may be to trust the file
        pass
    raise ValueError(f"{name} must be an .npz file that numpy.savez wrote, but {path} is not")


def parameters_of(model: Any) -> list[Any]:
    """Return the parameters of a model, Tensors or arrays, each once.

    These are what its ``parameters()`` gives. Of a model without that method, they are the floating Tensors among its
    attributes, and the parameters of models among its attributes. A function has none.

    Raises:
        TypeError: if ``parameters()`` gives something that has no shape.
    """
    parameters = list(_parameters_in(model, {}))
    for parameter in parameters:
        if not hasattr(parameter, "shape"):
            raise TypeError(
                f"parameters() of {type(model).__name__} must give Tensors or arrays, not {type(parameter).__name__}"
            )
    return list({id(parameter): parameter for parameter in parameters}.values())


def _parameters_in(value: Any, seen: dict[int, Any]) -> Iterator[Any]:
    """Yield the parameters of a model, a Tensor, or a container of these; ``seen`` are those already looked at."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, Tensor):
        if value.dtype.kind == "f":
            yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _parameters_in(each, seen)
    elif isinstance(value, dict):
        yield from _parameters_in(list(value.values()), seen)
    elif isinstance(value, type):
        return
    elif callable(getattr(value, "parameters", None)):
        yield from value.parameters()
    elif callable(getattr(value, "forward", None)) or isinstance(type(value).__call__, FunctionType):
        yield from _parameters_in(getattr(value, "__dict__", {}), seen)


def tensor_of(value: Tensor | Array) -> Tensor:
    """Return ``value`` as a Tensor that shares its memory.

    Raises:
        TypeError: if it is neither a Tensor nor an array.
    """
    if isinstance(value, Tensor):
        return value
    if isinstance(value, np.ndarray):
        return Tensor(value)
    raise TypeError(f"input_tensor must be a Tensor or a NumPy array, not {type(value).__name__}")


def checked_shape(input_shape: Shape) -> Shape:
    """Return ``input_shape`` as a tuple whose first axis is the batch; one axis alone is one sample.

    Raises:
        ValueError: if it is empty or a length is not a whole number above 0.
    """
    try:
        shape = tuple(input_shape)
    except TypeError:
        shape = ()
    if not shape or any(not isinstance(length, (int, np.integer)) or length < 1 for length in shape):
        raise ValueError(
            f"input_shape must be whole numbers above 0 with the batch first, such as (1, 784), not {input_shape!r}"
        )
    shape = tuple(int(length) for length in shape)
    return (1, *shape) if len(shape) == 1 else shape


def input_for(model: Any, given: Shape | Tensor | Array) -> Tensor:
    """Return what to run ``model`` on: an input as it is, or zeros of a shape (see `zeros_for`), the batch first.

    One axis alone is one sample. An array is an input unless it is a single row of whole numbers, which is a shape.
    """
    if isinstance(given, np.ndarray):
        given = tuple(given) if given.ndim == 1 and given.dtype.kind in "iu" else Tensor(given)
    if isinstance(given, Tensor):
        return given if given.ndim != 1 else Tensor(given.data[np.newaxis])
    return zeros_for(model, given)


def zeros_for(model: Any, input_shape: Shape) -> Tensor:
    """Return zeros of ``input_shape`` (see `checked_shape`) of the dtype that ``model`` takes.

    The dtype is ``model.input_dtype`` if there is one. Else it is int64, tokens, where the first module below
    ``model`` that holds parameters of its own is an Embedding, as in a GPT; else that of the first parameter, or
    float32 without parameters.
    """
    return Tensor(np.zeros(checked_shape(input_shape), _input_dtype(model)))


def _input_dtype(model: Any) -> np.dtype[Any]:
    given = getattr(model, "input_dtype", None)
    if given is not None:
        return np.dtype(given)
    if not isinstance(model, Module):
        return np.dtype(np.float32)
    for _, module in model.named_modules():
        own = [value for _, value in module._named_values() if isinstance(value, Tensor)]
        if own:
            return np.dtype(np.int64) if isinstance(module, Embedding) else own[0].dtype
    return np.dtype(np.float32)
