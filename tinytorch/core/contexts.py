"""Contexts that are decorators, too, of functions that have done their work when they return."""

from __future__ import annotations

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")

#: What a function that returns before it has done its work is called, and how it is told.
_LATER = (
    (inspect.isgeneratorfunction, "a generator function"),
    (inspect.iscoroutinefunction, "a coroutine function"),
    (inspect.isasyncgenfunction, "an asynchronous generator function"),
)


def checked_prompt(function: Callable[P, R], what: str) -> Callable[P, R]:
    """Return ``function`` if it does its work when it is called.

    Args:
        function: what ``what`` is to wrap.
        what: a decorator, as an error calls it.

    Raises:
        TypeError: if it is a generator, coroutine or asynchronous generator function.
    """
    for inner in (function, getattr(function, "__call__", None)):  # noqa: B004 - of an object whose class defines it
        for is_later, name in _LATER:
            if is_later(inner):
                shown = getattr(function, "__name__", type(function).__name__)
                raise TypeError(
                    f"{what} cannot wrap {shown}, {name}, because a call of it does not run its body yet: wrap a "
                    "function that runs it to its end"
                )
    return function


class _Context(contextlib._GeneratorContextManager[R]):
    def __call__(self, func: Callable[P, Any]) -> Callable[P, Any]:  # type: ignore[override, unused-ignore]
        return super().__call__(checked_prompt(func, f"@{self.func.__name__}()"))


def contextmanager(function: Callable[P, Iterator[R]]) -> Callable[P, contextlib._GeneratorContextManager[R]]:
    """Do what `contextlib.contextmanager` does, but refuse to decorate what runs after the context has ended."""

    @functools.wraps(function)
    def made(*args: P.args, **kwargs: P.kwargs) -> contextlib._GeneratorContextManager[R]:
        return _Context(cast(Any, function), args, kwargs)

    return made
