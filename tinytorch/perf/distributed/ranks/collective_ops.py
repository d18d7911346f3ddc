"""Ops of communication at the seam, and the MPI that they call: each call is an event with its bytes.

``traffic`` of these ops is the message's size in bytes: what a rank gives to a reduction, a broadcast or a receiver,
and what it gets from a gathering. Bytes that really cross a link depend on the library's algorithm, which MPI does
not tell. ``work`` is the additions that a rank makes where they are shared out evenly: (ranks - 1) / ranks an element
of a reduction (P. Patarasuk and X. Yuan, 2009, doi:10.1016/j.jpdc.2008.09.002).

Each event's parameters ``group`` and ``sequence`` say which call of which communicator it is; the same pair on all
ranks is one collective. No op here has a gradient: `tensor_parallel` makes differentiable ones of them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from tinytorch.core.op import Array, Call, Forward, Gradients, Op, Saved, Work

if TYPE_CHECKING:
    from tinytorch.perf.distributed.ranks.communicator import Communicator, Pending


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
            f'this needs mpi4py and an MPI library: pip install "tinytorch[mpi]" brings both, and on a cluster '
            f"mpi4py works with the cluster's own MPI ({error})"
        ) from None
    return MPI


#: int64 numbers in the message that goes before an array of any shape: dtype, axes, lengths.
HEADER = 10
#: A call of MPI's communicator with what to send and where the result goes.
Transfer = Callable[[Any, Array, Array], Any]


def _no_gradient(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    del gradient, saved, needs, owned
    raise RuntimeError("communication between ranks has no gradient by itself: use the layers of tensor_parallel")


def _given(array: Array, out: Array) -> Any:
    """Return what MPI takes for the array to send: itself, or the mark that it stands where the result goes."""
    return load_mpi().IN_PLACE if np.may_share_memory(array, out) else array


def _filling(transfer: Transfer) -> Forward:
    """Return the forward of an op that ends when ``transfer(raw, array, out)`` has filled ``out``."""

    def forward(keep: bool, array: Array, *, communicator: Communicator, out: Array, **_: Any) -> tuple[Array, Saved]:
        del keep
        transfer(communicator.raw, array, out)
        return out, ()

    return forward


def _beginning(transfer: Transfer) -> Forward:
    """Return the forward of an op that begins ``transfer(raw, array, out)``, a request that `wait` completes."""

    def forward(
        keep: bool, array: Array, *, communicator: Communicator, pending: Pending, out: Array, **_: Any
    ) -> tuple[Array, Saved]:
        del keep
        pending.requests = [transfer(communicator.raw, array, out)]
        return out, ()

    return forward


_all_reduce = _filling(lambda raw, array, out: raw.Allreduce(_given(array, out), out))
_reduce_scatter = _filling(lambda raw, array, out: raw.Reduce_scatter_block(array, out))
_all_gather = _filling(lambda raw, array, out: raw.Allgather(_given(array, out), out))
_begin_all_reduce = _beginning(lambda raw, array, out: raw.Iallreduce(_given(array, out), out))
_begin_reduce_scatter = _beginning(lambda raw, array, out: raw.Ireduce_scatter_block(array, out))
_begin_all_gather = _beginning(lambda raw, array, out: raw.Iallgather(_given(array, out), out))


def _broadcast(keep: bool, array: Array, *, communicator: Communicator, root: int, **_: Any) -> tuple[Array, Saved]:
    del keep
    communicator.raw.Bcast(array, root)
    return array, ()


def _barrier(keep: bool, *, communicator: Communicator, **_: Any) -> tuple[Array, Saved]:
    del keep
    communicator.raw.Barrier()
    return np.empty(0, np.uint8), ()


def _send(
    keep: bool, array: Array, *, communicator: Communicator, header: Array, peer: int, tag: int, **_: Any
) -> tuple[Array, Saved]:
    del keep
    communicator.raw.Send(header, peer, tag)
    communicator.raw.Send(array, peer, tag)
    return np.empty(0, np.uint8), ()


def _receive(keep: bool, *, communicator: Communicator, peer: int, tag: int, **_: Any) -> tuple[Array, Saved]:
    del keep
    header = np.empty(HEADER, np.int64)
    communicator.raw.Recv(header, peer, tag)
    array = np.empty(shape_in(header), dtype_in(header))
    communicator.raw.Recv(array, peer, tag)
    return array, ()


def _begin_send(
    keep: bool,
    array: Array,
    *,
    communicator: Communicator,
    pending: Pending,
    header: Array,
    peer: int,
    tag: int,
    **_: Any,
) -> tuple[Array, Saved]:
    del keep
    pending.requests = [communicator.raw.Isend(header, peer, tag), communicator.raw.Isend(array, peer, tag)]
    return np.empty(0, np.uint8), ()


def _wait(keep: bool, result: Array, *, pending: Pending, **_: Any) -> tuple[Array, Saved]:
    del keep
    for request in pending.requests:
        request.Wait()
    return result, ()


def _poll(keep: bool, *, pending: Pending, **_: Any) -> tuple[Array, Saved]:
    del keep
    return np.array([request.Test() for request in pending.requests]), ()


def header_of(array: Array) -> Array:
    """Return what goes before ``array`` so that its receiver can make room: (HEADER,) int64.

    Raises:
        ValueError: if it has more axes than a header holds.
    """
    if array.ndim > HEADER - 2:
        raise ValueError(f"array must have at most {HEADER - 2} axes to be sent, not {array.ndim}")
    header = np.zeros(HEADER, np.int64)
    header[:2] = array.dtype.num, array.ndim
    header[2 : 2 + array.ndim] = array.shape
    return header


def dtype_in(header: Array) -> np.dtype[Any]:
    """Return the dtype that a header announces."""
    number = int(header[0])
    return next(kind for kind in map(np.dtype, SENDABLE) if kind.num == number)


def shape_in(header: Array) -> tuple[int, ...]:
    """Return the shape that a header announces."""
    return tuple(int(length) for length in header[2 : 2 + int(header[1])])


#: dtypes that have a type of MPI which every library knows.
SENDABLE = ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f4", "f8")


def _bytes_in(call: Call) -> int:
    return call.inputs[0].nbytes


def _bytes_out(call: Call) -> int:
    return call.output.nbytes


def _no_bytes(call: Call) -> int:
    """Return 0: the message was counted when it began, or there is none."""
    del call
    return 0


def _no_work(call: Call) -> Work:
    del call
    return Work()


def _reduction_work(call: Call) -> Work:
    ranks: int = call.params["ranks"]
    return Work(elementwise=call.inputs[0].size * (ranks - 1) // ranks)


all_reduce = Op("all_reduce", _all_reduce, _no_gradient, _reduction_work, _bytes_in)
reduce_scatter = Op("reduce_scatter", _reduce_scatter, _no_gradient, _reduction_work, _bytes_in)
all_gather = Op("all_gather", _all_gather, _no_gradient, _no_work, _bytes_out)
broadcast = Op("broadcast", _broadcast, _no_gradient, _no_work, _bytes_in)
barrier = Op("barrier", _barrier, _no_gradient, _no_work, _no_bytes)
send = Op("send", _send, _no_gradient, _no_work, _bytes_in)
receive = Op("receive", _receive, _no_gradient, _no_work, _bytes_out)
begin_all_reduce = Op("begin_all_reduce", _begin_all_reduce, _no_gradient, _reduction_work, _bytes_in)
begin_reduce_scatter = Op("begin_reduce_scatter", _begin_reduce_scatter, _no_gradient, _reduction_work, _bytes_in)
begin_all_gather = Op("begin_all_gather", _begin_all_gather, _no_gradient, _no_work, _bytes_out)
begin_send = Op("begin_send", _begin_send, _no_gradient, _no_work, _bytes_in)
wait = Op("wait", _wait, _no_gradient, _no_work, _no_bytes)
poll = Op("poll", _poll, _no_gradient, _no_work, _no_bytes)

#: What begins, by the names of its events; what completes it is the `wait` of the same group and sequence.
BEGINNINGS = frozenset({op.name for op in (begin_all_reduce, begin_reduce_scatter, begin_all_gather, begin_send)})
#: Names of the ops of this module.
COMMUNICATION = BEGINNINGS | {
    op.name for op in (all_reduce, reduce_scatter, all_gather, broadcast, barrier, send, receive, wait, poll)
}
