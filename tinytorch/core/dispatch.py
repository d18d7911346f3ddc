"""The one seam: every primitive operation, forward and backward, runs through here and nowhere else.

What observes ops and what is switched (gradients, implementations) holds in the context of the `with` that asked for
it: in its thread or task, and in no other. An observer is told when ops run elsewhere.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, ContextDecorator, nullcontext
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from tinytorch.core.contexts import checked_prompt, contextmanager
from tinytorch.core.op import (
    AnyCallable,
    Array,
    Call,
    Gradients,
    Implementation,
    Op,
    Saved,
    Spec,
    Switch,
    Switches,
    as_int,
    switches,
)
from tinytorch.core.tensor import Node, Tensor

if TYPE_CHECKING:
    from tinytorch.core.module import Module


class Observer:
    """Observer of the seam, told of every op, module call and region while it is installed. Override what matters.

    Methods must not run ops themselves. ``before_op`` runs right before the clock starts and ``after_op``
    after it stops, so that an observer's own work is not in an op's time.
    """

    def before_op(self) -> None:
        """Called before the clock of an op starts."""

    def after_op(self, call: Call, inputs: tuple[Any, ...], outputs: tuple[Array | None, ...], saved: Saved) -> None:
        """Called after an op ran: its event, operands, results, and what it keeps for backward.

        An observer that keeps one of the arrays keeps its memory alive.
        """

    def enter_module(self, path: str, module: Module) -> None:
        """Called when a module's forward begins."""

    def leave_module(self, path: str, module: Module) -> None:
        """Called when a module's forward ends, also by an error."""

    def enter_region(self, name: str) -> None:
        """Called when a named region of the program begins."""

    def leave_region(self, name: str) -> None:
        """Called when a named region ends, also by an error."""

    def elsewhere(self) -> None:
        """Called on another thread, or in another task, that runs an op: nothing of it is seen here."""


class _State(threading.local):
    """The module that a thread is in, and the names of all in its outermost one."""

    def __init__(self) -> None:
        self.path = ""
        self.paths: dict[int, str] = {}


_state = _State()
#: The observers of all contexts by their identity, whatever they say that they equal.
_everywhere: dict[int, Observer] = {}


def apply(op: Op, *inputs: Any, **params: Any) -> Tensor:
    """Run ``op`` on ``inputs`` (Tensors, arrays or Python numbers) and return its output as a Tensor.

    With gradients on, and an input that requires one, the call is recorded for `Tensor.backward`.
    """
    here = switches.get()
    if _everywhere and _observers_of(here):
        return _apply_observed(op, inputs, params, here)
    implementation = op.default if here.chosen is None else here.chosen.get(op, op.default)
    arrays, needs = _unwrapped(inputs)
    keep = here.gradients and True in needs
    output, saved = implementation.forward(keep, *arrays, **params)
    if not keep:
        return Tensor._made(output, None)
    return Tensor._made(output, Node(op, implementation, inputs, needs, arrays, saved, params))


def _plain(params: dict[str, Any]) -> dict[str, Any]:
    """Return ``params`` without integers of NumPy, in which formulas of work would overflow."""
    for value in params.values():
        if isinstance(value, (np.integer, tuple, list)) and as_int(value) is not value:
            return {name: as_int(each) for name, each in params.items()}
    return params


def _unwrapped(inputs: tuple[Any, ...]) -> tuple[list[Any], list[bool]]:
    """Return the arrays behind ``inputs``, and which of them require a gradient."""
    arrays, needs = [], []
    for value in inputs:
        if isinstance(value, Tensor):
            arrays.append(value._data)
            needs.append(value.requires_grad)
        else:
            arrays.append(_as_number(value, inputs) if isinstance(value, np.generic) else value)
            needs.append(False)
    return arrays, needs


def _as_number(scalar: Any, inputs: tuple[Any, ...]) -> Any:
    """Return a NumPy scalar as the Python number that it is: its float64 would become that of a float32 result.

    An integer stays what it is among integers.
    """
    floating = isinstance(scalar, np.floating) or any(
        isinstance(value, Tensor) and value._data.dtype.kind == "f" for value in inputs
    )
    return scalar.item() if floating else scalar


def apply_backward(node: Node, gradient: Array, owned: bool) -> Gradients:
    """Run the backward of the op that ``node`` records; return one gradient, or None, for each input."""
    needs = node.needs
    observers = _observers_of(switches.get()) if _everywhere else ()
    if not observers:
        return node.implementation.backward(gradient, node.saved, needs, owned)
    for observer in observers:
        observer.before_op()
    start = time.perf_counter_ns()
    gradients = node.implementation.backward(gradient, node.saved, needs, owned)
    end = time.perf_counter_ns()
    output, params = Spec(gradient.shape, gradient.dtype), _plain(node.params)
    call = Call(node.op, node.implementation, "backward", node.path, node.specs, output, params, needs, start, end)
    for observer in observers:
        observer.after_op(call, (gradient,), gradients, ())
    return gradients


def _observers_of(here: Switches) -> tuple[Observer, ...]:
    """Return the observers of an op that runs here, and tell those of other contexts that it does."""
    observers: tuple[Observer, ...] = here.observers if here.thread == threading.get_ident() else ()
    if len(observers) != len(_everywhere):
        for other in tuple(_everywhere.values()):
            if not any(other is mine for mine in (*observers, *here.hidden)):
                other.elsewhere()
    return observers


def _apply_observed(op: Op, inputs: tuple[Any, ...], params: dict[str, Any], here: Switches) -> Tensor:
    """Do what `apply` does, and tell the observers."""
    params = _plain(params)
    state, implementation = _state, op.default if here.chosen is None else here.chosen.get(op, op.default)
    arrays, needs = _unwrapped(inputs)
    keep = here.gradients and True in needs
    for observer in here.observers:
        observer.before_op()
    start = time.perf_counter_ns()
    output, saved = implementation.forward(keep, *arrays, **params)
    end = time.perf_counter_ns()
    output = np.asarray(output)
    specs = tuple([Spec(a.shape, a.dtype) if isinstance(a, np.ndarray) else Spec((), None) for a in arrays])
    call = Call(
        op, implementation, "forward", state.path, specs, Spec(output.shape, output.dtype), params, (), start, end
    )
    for observer in here.observers:
        observer.after_op(call, tuple(arrays), (output,), saved if keep else ())
    if not keep:
        return Tensor._made(output, None)
    node = Node(op, implementation, inputs, needs, arrays, saved, params, state.path, specs)
    return Tensor._made(output, node)


@contextmanager
def _switched(switch: Switch) -> Iterator[None]:
    """Run the body with ``switch`` as the last one of this context; bodies may end in any order."""
    _everywhere.update({id(observer): observer for observer in switch.observers})
    switches.set(switches.get().plus(switch))
    try:
        yield
    finally:
        switches.set(switches.get().minus(switch))
        for observer in switch.observers:
            del _everywhere[id(observer)]


_NO_GRAD = Switch(gradients=False)


class no_grad(ContextDecorator):  # noqa: N801 - called as the function that it is to a reader
    """Run the body without recording anything for backward. Also works as a decorator.

    It is entered around every forward and costs less than an op: it is no generator, and its switches are made once.
    """

    def __call__(self, func: AnyCallable) -> AnyCallable:
        """Return ``func`` run within this context."""
        return cast(AnyCallable, super().__call__(checked_prompt(func, "@no_grad()")))

    def _recreate_cm(self) -> no_grad:
        return no_grad()

    def __enter__(self) -> None:
        self._before = here = switches.get()
        if here.ungraded is None:
            here.ungraded = here.plus(_NO_GRAD)
        switches.set(here.ungraded)

    def __exit__(self, *raised: object) -> None:
        now, before = switches.get(), self._before
        switches.set(before if now is before.ungraded else now.minus(_NO_GRAD))


@contextmanager
def observed_by(*observers: Observer) -> Iterator[None]:
    """Tell ``observers`` of every op and module call that the body makes, and of ops elsewhere that there are some.

    Raises:
        ValueError: if one of them is installed already; it would be told of everything twice.
    """
    for index, observer in enumerate(observers):
        if id(observer) in _everywhere or any(observer is other for other in observers[:index]):
            raise ValueError(f"observers must be new, but {observer!r} is installed already")
    with _switched(Switch(observers, threading.get_ident())):
        yield


class _Seen(AbstractContextManager[None]):
    """A region whose beginning and end the observers of its beginning are told of."""

    __slots__ = ("_name", "_observers")

    def __init__(self, name: str, observers: tuple[Observer, ...]) -> None:
        self._name = name
        self._observers = observers

    def __enter__(self) -> None:
        for observer in self._observers:
            observer.enter_region(self._name)

    def __exit__(self, *raised: object) -> None:
        for observer in reversed(self._observers):
            observer.leave_region(self._name)


#: A region that nobody observes.
_UNSEEN = nullcontext()


def region(name: str) -> AbstractContextManager[None]:
    """Return a context that names the time of its body: ``with region("augment"):``.

    Observers see where it begins and ends; ops and modules in it keep their own time. Regions nest. Without an
    observer it does nothing.

    Raises:
        ValueError: if ``name`` is empty or no text, under an observer.

    Examples:
        >>> from tinytorch import Linear, Profiler, Tensor
        >>> from tinytorch.perf.profiling import region
        >>> with Profiler() as p:
        ...     with region("augment"):
        ...         x = Tensor([[1.0] * 8])
        ...     y = Linear(8, 4)(x)
        >>> [row.op for row in p.attribution() if row.op == "augment"]
        ['augment']
    """
    observers = _observers_of(switches.get()) if _everywhere else ()
    if not observers:
        return _UNSEEN
    if not isinstance(name, str) or not name.strip():
        raise ValueError(f"a region's name must be a text of at least one letter, not {name!r}")
    return _Seen(name, observers)


@contextmanager
def unobserved() -> Iterator[None]:
    """Run the body without the observers that are installed: for ops that are no part of the program they look at."""
    with _switched(Switch(hides=True)):
        yield


@contextmanager
def implementations(chosen: Mapping[Op, Implementation]) -> Iterator[None]:
    """Run the body with another implementation of some ops.

    A backward always runs the implementation whose forward ran, also after the body.
    """
    with _switched(Switch(chosen=dict(chosen))):
        yield


def is_observed() -> bool:
    """Return whether any observer is told of what runs here."""
    return bool(_everywhere) and bool(_observers_of(switches.get()))


@contextmanager
def module_scope(module: Module) -> Iterator[None]:
    """Attribute the ops of the body to ``module``; only `Module.__call__` has use for it.

    Paths are those of the outermost module: the name by which `Module.named_modules` of it finds this one,
    or, for a module that it does not hold, the caller's path and the class's name.
    """
    state, observers = _state, _observers_of(switches.get())
    outer, outer_paths = state.path, state.paths
    if not outer_paths:
        state.paths = {id(child): name for name, child in module.named_modules()}
    name = state.paths.get(id(module))
    if name is None:
        name = f"{outer}.{type(module).__name__}" if outer else type(module).__name__
    state.path = name
    try:
        for observer in observers:
            observer.enter_module(name, module)
        try:
            yield
        finally:
            for observer in observers:
                observer.leave_module(name, module)
    finally:
        state.path, state.paths = outer, outer_paths
