"""Messages of mpi4py as JSON, in place of its pickles: functions go by name, errors as text."""

from __future__ import annotations

import json
from typing import Any

from tinytorch.perf.distributed.ranks.mpi import load_mpi
from tinytorch.perf.measuring.processes import function_at, reference_to

_FUNCTION, _ERROR = "/function", "/error"


def speak_json() -> None:
    """Let what this process sends and receives as Python objects from now on be JSON; all ranks must call it.

    Raises:
        MPIMissingError: if mpi4py or an MPI library is not there.
    """
    load_mpi().pickle.__init__(_written, _read)  # mpi4py's documented way to give it another serializer


def _written(value: Any) -> bytes:
    return json.dumps(value, default=_other).encode()


def _read(message: Any) -> Any:
    return json.loads(bytes(message), object_hook=_back)


def _other(value: Any) -> dict[str, str]:
    if isinstance(value, BaseException):
        return {_ERROR: f"{type(value).__name__}: {value}"}
    if callable(value):
        return {_FUNCTION: reference_to("a message's function", value)}
    raise TypeError(f"a message must be of what JSON can hold, functions and errors, not {type(value).__name__}")


def _back(fields: dict[str, Any]) -> Any:
    if [*fields] == [_FUNCTION]:
        return function_at(fields[_FUNCTION])
    if [*fields] == [_ERROR]:
        return RuntimeError(fields[_ERROR])
    return fields
