"""Ops of communication at the seam, and the MPI that they call: each call is an event with its bytes.

``traffic`` of these ops is the message's size in bytes: what a rank gives to a reduction, a broadcast or a receiver,
and what it gets from a gathering. Bytes that really cross a link depend on the library's algorithm, which MPI does
not tell. ``work`` is the additions that a rank makes where they are shared out evenly: (ranks - 1) / ranks an element
of a reduction (P. Patarasuk and X. Yuan, 2009, doi:10.1016/j.jpdc.2008.09.002).

Each event's parameters ``group`` and ``sequence`` say which call of which communicator it is; the same pair on all
ranks is one collective. No op here has a gradient.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tinytorch.core.op import Array, Call, Gradients, Op, Saved, Shape, Work, no_traffic

if TYPE_CHECKING:
    from tinytorch.perf.distributed.ranks.communicator import Communicator, Pending

#: int64 numbers in the message that goes before an array of any shape: dtype, axes, lengths.
HEADER = 10
#: Bytes of the description of what a rank gives to a collective.
DESCRIPTION = 160
#: dtypes that have a type of MPI which every library knows.
SENDABLE = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")
#: Runs a call, given its arrays and parameters, and returns what it gave.
_Run = Callable[..., Array]


class MPIMissingError(ImportError):
    """mpi4py or an MPI library is not installed; the message says what to install."""


@cache
def load_mpi() -> ModuleType:
    """Return ``mpi4py.MPI``; the first call starts MPI in this process.

    Raises:
        MPIMissingError: if mpi4py or an MPI library is not there.
    """
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py is there, but no MPI library that it can load
        raise MPIMissingError(
            "this needs mpi4py and an MPI library: run `pip install mpi4py mpich`; on a cluster, mpi4py works with "
            f"the cluster's own MPI ({error})"
        ) from None
    return MPI


def _between(name: str, transfer: Callable[..., Any]) -> _Run:
    """Return what calls ``transfer(raw, array, out)``; with ``pending`` that is a request, which `wait` completes."""

    def run(array: Array, *, communicator: Communicator, out: Array, pending: Pending | None = None, **_: Any) -> Array:
        given = Given(name, array.dtype.str[1:], array.shape)
        if pending is None:
            communicator.agree(given)
        else:
            pending.agreement = communicator.begin_agreement(given)
        in_place = np.may_share_memory(array, out)  # MPI wants a mark for an array that stands where the result goes
        request = transfer(communicator.raw, load_mpi().IN_PLACE if in_place else array, out)
        if pending is not None:
            pending.requests = [request]
        return out

    return run


def _broadcast(array: Array, *, communicator: Communicator, root: int, **_: Any) -> Array:
    communicator.agree(Given("broadcast", array.dtype.str[1:], array.shape, root))
    communicator.raw.Bcast(array, root)
    return array


def _barrier(*, communicator: Communicator, **_: Any) -> Array:
    communicator.raw.Barrier()
    return np.empty(0, np.uint8)


def _send(
    array: Array, *, communicator: Communicator, pending: Pending, header: Array, peer: int, tag: int, **_: Any
) -> Array:
    pending.requests = [communicator.raw.Isend(header, peer, tag), communicator.raw.Isend(array, peer, tag)]
    return np.empty(0, np.uint8)


def _receive(*, communicator: Communicator, peer: int, tag: int, **_: Any) -> Array:
    header = np.empty(HEADER, np.int64)
    communicator.raw.Recv(header, peer, tag)
    array = np.empty([int(length) for length in header[2 : 2 + header[1]]], SENDABLE[header[0]])
    communicator.raw.Recv(array, peer, tag)
    return array


def _wait(result: Array, *, pending: Pending, **_: Any) -> Array:
    if pending.agreement is not None:
        pending.agreement()
        pending.agreement = None
    for request in pending.requests:
        request.Wait()
    return result


def _poll(*, pending: Pending, **_: Any) -> Array:
    return np.array([request.Test() for request in pending.requests])


def header_of(array: Array) -> Array:
    """Return what goes before ``array`` so that its receiver can make room: (HEADER,) int64.

    Raises:
        ValueError: if it has more axes than a header holds.
    """
    if array.ndim > HEADER - 2:
        raise ValueError(f"array must have at most {HEADER - 2} axes to be sent, not {array.ndim}")
    header = np.zeros(HEADER, np.int64)
    header[:2] = [np.dtype(kind) for kind in SENDABLE].index(array.dtype), array.ndim
    header[2 : 2 + array.ndim] = array.shape
    return header


class Given(NamedTuple):
    """What a rank gives to a collective: its name, and the dtype, the shape and the root of it."""

    name: str
    dtype: str
    shape: Shape
    root: int = 0

    def __str__(self) -> str:
        root = f" with root {self.root}" if self.name == "broadcast" else ""
        return f"{np.dtype(self.dtype)} of shape {self.shape} to {self.name}{root}"


@lru_cache(maxsize=1024)
def encoded(given: Given) -> Array:
    """Return a description as text in a fixed number of bytes, which a rank can send before it knows the other's."""
    made = np.zeros(DESCRIPTION, np.uint8)
    text = str(given).encode()[:DESCRIPTION]
    made[: len(text)] = np.frombuffer(text, np.uint8)
    made.flags.writeable = False
    return made


def _bytes_in(call: Call) -> int:
    return call.inputs[0].nbytes


def _bytes_out(call: Call) -> int:
    return call.output.nbytes


def _sum_work(call: Call) -> Work:
    ranks: int = call.params["ranks"]
    return Work(elementwise=call.inputs[0].size * (ranks - 1) // ranks)


def _no_gradient(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    del gradient, saved, needs, owned
    raise RuntimeError("communication between ranks has no gradient by itself: sum gradients with DataParallel")


def no_work(_: Call) -> Work:
    """Return nothing: nothing is computed, or it is counted by another op."""
    return Work()


def _op(name: str, run: _Run, traffic: Callable[[Call], int], work: Callable[[Call], Work] = no_work) -> Op:
    def forward(keep: bool, *inputs: Array, **params: Any) -> tuple[Array, Saved]:
        del keep
        return run(*inputs, **params), ()

    return Op(name, forward, _no_gradient, work, traffic)


all_reduce = _op("all_reduce", _between("all_reduce", lambda raw, *both: raw.Allreduce(*both)), _bytes_in, _sum_work)
broadcast = _op("broadcast", _broadcast, _bytes_in)
barrier = _op("barrier", _barrier, no_traffic)
receive = _op("receive", _receive, _bytes_out)
_begin_sum = _between("begin_all_reduce", lambda raw, *both: raw.Iallreduce(*both))
begin_all_reduce = _op("begin_all_reduce", _begin_sum, _bytes_in, _sum_work)
_begin_scatter = _between("begin_reduce_scatter", lambda raw, *both: raw.Ireduce_scatter_block(*both))
begin_reduce_scatter = _op("begin_reduce_scatter", _begin_scatter, _bytes_in, _sum_work)
_begin_gather = _between("begin_all_gather", lambda raw, *both: raw.Iallgather(*both))
begin_all_gather = _op("begin_all_gather", _begin_gather, _bytes_out)
begin_send = _op("begin_send", _send, _bytes_in)
wait = _op("wait", _wait, no_traffic)
poll = _op("poll", _poll, no_traffic)

#: What begins, by the names of its events; what completes it is the `wait` of the same group and sequence.
BEGINNINGS = frozenset({op.name for op in (begin_all_reduce, begin_reduce_scatter, begin_all_gather, begin_send)})
#: Names of the ops of this module.
COMMUNICATION = BEGINNINGS | {op.name for op in (all_reduce, broadcast, barrier, receive, wait, poll)}
