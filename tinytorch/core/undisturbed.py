"""A model left as it was: what analysis changes in one by running it, put back afterwards."""

from __future__ import annotations

import functools
import random
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from types import FunctionType, MethodType
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tinytorch.core.attention import Attending
from tinytorch.core.contexts import contextmanager
from tinytorch.core.module import Module, Parameter
from tinytorch.core.op import Array
from tinytorch.core.random import generator_from
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import Remembering

#: Two threads that look at one model would each put back what the other had changed.
one_at_a_time = threading.RLock()


@runtime_checkable
class Arranging(Protocol):
    """A Tensor that holds a weight in the order in which a kernel reads it; asking for ``data`` undoes that order."""

    @property
    def arrays(self) -> tuple[Array, ...]:
        """The arrays that it holds, as they are."""


@contextmanager
def undisturbed(*models: Any) -> Iterator[None]:
    """Run the body, then put back what a forward, a backward or a change of mode changed in ``models``.

    These are attributes of modules and what their lists, dicts, sets, arrays and buffers hold (modes, running
    statistics, caches), gradients, and the states of random generators: the modules' own and the process's. The numbers
    of parameters and of quantized weights are not looked at: only training changes them. In the body gradients begin at
    None, and a GPT's cache of keys and values is set aside: it reads whole sequences.

    Args:
        models: Modules, other objects with a ``forward``, or functions, of which what they are bound to counts.
    """
    with one_at_a_time, ExitStack() as undo:
        keeper = _Keeper(undo.callback)
        undo.callback(random.setstate, random.getstate())
        undo.callback(np.random.set_state, np.random.get_state())
        keeper.keep(generator_from(None))
        for model in models:
            keeper.keep_model(model)
        yield


@contextmanager
def evaluating(*models: Module) -> Iterator[None]:
    """Run the body with ``models`` in eval mode, then give each module the mode that it had."""
    with one_at_a_time:
        attributes = [vars(module) for model in models for _, module in model.named_modules()]
        modes = [own.get("training") for own in attributes]
        for model in models:
            model.eval()
        try:
            yield
        finally:
            for own, mode in zip(attributes, modes, strict=True):
                if mode is None:  # nobody has set one
                    own.pop("training", None)
                else:
                    own["training"] = mode


class _Keeper:
    """Hands to ``later`` what puts back the state that it finds, of each object once."""

    def __init__(self, later: Callable[..., Any]) -> None:
        self._later = later
        self._seen: dict[int, Any] = {}  # held, so that no other object gets the address of one

    def _is_new(self, value: Any) -> bool:
        known = id(value) in self._seen
        self._seen[id(value)] = value
        return not known

    def keep_model(self, model: Any) -> None:
        """Keep a model, or those that a function is bound to."""
        if isinstance(model, (FunctionType, MethodType, functools.partial)):
            if self._is_new(model):
                for each in _bound(model):
                    self.keep_model(each)
        elif not isinstance(model, type) and callable(getattr(model, "forward", None)) and self._is_new(model):
            self._keep_attributes(model)

    def keep(self, value: Any) -> None:
        """Keep a value, if it has a state, and what it holds."""
        if isinstance(value, (str, bytes, int, float, type(None))) or not self._is_new(value):
            return
        if isinstance(value, Module):
            self._keep_attributes(value)
        elif isinstance(value, Tensor):
            self._keep_tensor(value)
        elif isinstance(value, np.ndarray):
            if value.flags.writeable:
                self._later(np.copyto, value, value.copy())
        elif isinstance(value, np.random.Generator):
            self._later(setattr, value.bit_generator, "state", value.bit_generator.state)
        elif isinstance(value, np.random.RandomState):
            self._later(value.set_state, value.get_state())
        elif isinstance(value, random.Random):
            self._later(value.setstate, value.getstate())
        elif isinstance(value, dict):
            self._later(_refill, value, dict(value))
            for each in value.values():
                self.keep(each)
        elif isinstance(value, (list, deque, set, tuple)):
            if not isinstance(value, tuple):
                self._later(_refill, value, list(value))
            for each in value:
                self.keep(each)

    def _keep_attributes(self, model: Any) -> None:
        """Keep the attributes of a module, or of a model that is none, and set its memory of earlier tokens aside."""
        own = getattr(model, "__dict__", {})
        self._later(_refill, own, dict(own))
        for name, value in own.items():
            if name not in getattr(model, "worked_out", ()):
                self.keep(value)
        if isinstance(own.get("memory"), (Attending, Remembering)):
            model.memory = None

    def _keep_tensor(self, tensor: Tensor) -> None:
        if isinstance(tensor, Arranging):  # a quantized weight, which no forward changes
            return
        if not (isinstance(tensor, Parameter) or tensor.requires_grad):
            self.keep(tensor.data)
        for name in ("data", "grad", "requires_grad"):
            self._later(setattr, tensor, name, getattr(tensor, name))
        tensor.grad = None


def _bound(function: Any) -> list[Any]:
    if isinstance(function, MethodType):
        return [function.__self__]
    if isinstance(function, functools.partial):
        return [function.func, *function.args, *function.keywords.values()]
    found = []
    for cell in function.__closure__ or ():
        with suppress(ValueError):  # not assigned yet
            found.append(cell.cell_contents)
    return found


def _refill(container: Any, held: Any) -> None:
    """Let a container hold what it held, in that order."""
    if isinstance(container, dict):
        now = list(container.items())
        same = len(now) == len(held) and all(
            key is old and value is before for (key, value), (old, before) in zip(now, held.items(), strict=True)
        )
        if not same:
            container.clear()
            container.update(held)
    elif len(container) != len(held) or any(now is not before for now, before in zip(container, held, strict=True)):
        container.clear()
        (container.update if isinstance(container, set) else container.extend)(held)
