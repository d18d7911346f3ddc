"""Communicator: a thin, typed front of mpi4py, each call an op at the seam; and what all ranks must agree on.

Under an observer a call is an event with start, end and bytes. How long it waited for the last rank is found
afterwards, from the events of all ranks (`recording`), so nothing is added to what is measured.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import operator
import os
import platform
import socket
import stat
import sys
import termios
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from tinytorch.core import dispatch
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Op
from tinytorch.perf.distributed.ranks import collective_ops as ops
from tinytorch.perf.distributed.ranks.collective_ops import Given, load_mpi
from tinytorch.perf.host.pinned_threads import usable_cores

#: Exit code of a run that was ended because of one of its ranks: EX_SOFTWARE of sysexits.h.
FAILED = 70
#: Folder of the package `tinytorch`.
_PACKAGE = Path(__file__).parents[3]


@dataclass(frozen=True)
class Place:
    """Place of a rank: its host, its process and the cores that it may keep busy."""

    rank: int
    host: str
    process: int
    cores: tuple[int, ...]

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.host}, process {self.process})"


class Activity:
    """Call that a rank is in right now, for whoever watches it from another thread.

    ``now`` is the name of the op, "" between them; ``calls`` how many it began; ``since`` is when the last one began or
    ended, by ``time.monotonic()``; ``watched`` says whether somebody does, who ends the run where a rank fails.
    """

    __slots__ = ("calls", "now", "since", "watched")

    def __init__(self) -> None:
        self.now, self.calls, self.since, self.watched = "", 0, time.monotonic(), False

    def begin(self, name: str) -> None:
        """Note that an op begins."""
        self.calls += 1
        self.now, self.since = name, time.monotonic()

    def end(self) -> None:
        """Note that it ended."""
        self.now, self.since = "", time.monotonic()


class Pending:
    """A call that runs on while the rank does something else. It keeps the buffers alive that it moves."""

    def __init__(self, communicator: Communicator, sequence: int, sent: tuple[Array, ...], result: Array) -> None:
        self.requests: list[Any] = []
        #: Raises unless the ranks gave arrays that go together; None where nothing is to be agreed on, or it is done.
        self.agreement: Callable[[], None] | None = None
        self.arrived = False
        self.sent, self.result = sent, result
        self._communicator, self._sequence = communicator, sequence

    def wait(self) -> Array:
        """Return the result once it is there; its buffers may be used again from then on.

        Raises:
            ValueError: if this rank and the one before it began different collectives, or gave arrays of different
                shapes or dtypes.
        """
        return self._communicator._run(ops.wait, self.result, sequence=self._sequence, pending=self)

    def done(self) -> bool:
        """Return whether it is there. Asking also moves it on: most MPI libraries work only while they are called."""
        if not self.arrived:
            self.arrived = bool(self._communicator._run(ops.poll, sequence=self._sequence, pending=self).all())
        return self.arrived


class Communicator:
    """Group of ranks that all make the same calls in the same order. Make one with `world`.

    Attributes:
        rank, size: this rank's number in the group and how many there are. places: where each of them runs.
        group: its name, the same on all ranks.
        raw: mpi4py's communicator.
        activity: what this rank is doing, shared by all communicators of a process.

    Examples:
        >>> import numpy as np
        >>> from tinytorch.perf.distributed import world
        >>> group = world()
        >>> group.all_reduce(np.ones(3, np.float32))  # of a group of one
        array([1., 1., 1.], dtype=float32)
        >>> group.exchange(group.rank)
        [0]
    """

    def __init__(self, raw: Any, group: str, activity: Activity) -> None:
        self.raw, self.group, self.activity = raw, group, activity
        self.rank, self.size = int(raw.Get_rank()), int(raw.Get_size())
        self._collectives = 0
        self._children = 0
        #: Ranks tell each other here what they are about to give, so that no other message comes between.
        self._agreeing = raw.Dup() if self.size > 1 else None
        places = self.exchange([self.rank, socket.gethostname(), os.getpid(), usable_cores()])
        self.places = tuple(Place(rank, host, process, tuple(cores)) for rank, host, process, cores in places)

    @property
    def oversubscribed(self) -> bool:
        """Whether some host has more ranks than cores for them: times taken then say nothing about scaling."""
        ranks = Counter(place.host for place in self.places)
        cores = Counter(host for host, _ in {(place.host, core) for place in self.places for core in place.cores})
        return any(count > cores[host] for host, count in ranks.items())

    def all_reduce(self, array: Array, out: Array | None = None) -> Array:
        """Return the sum of every rank's ``array``, elementwise, in ``out``, which may be ``array``, or a new array.

        Raises:
            TypeError: if the dtype cannot be sent, which all calls that send raise, or is bool, which has no sum.
            ValueError: if ``out`` is not of the array's shape and dtype, in C order, or if this rank and the one before
                it make different calls or give arrays of different shapes or dtypes. All collectives raise that, those
                that are begun where they are waited for.
        """
        array = _summable(array)
        return self._collective(ops.all_reduce, array, out=_room(out, array, array.shape, in_place=out))

    def begin_all_reduce(self, array: Array, out: Array | None = None) -> Pending:
        """Begin `all_reduce`; neither array may be touched before `Pending.wait`."""
        array = _summable(array)
        return self._begin(ops.begin_all_reduce, array, _room(out, array, array.shape, in_place=out))

    def begin_reduce_scatter(self, array: Array) -> Pending:
        """Begin to make this rank's part of the sum of every rank's ``array``, whose first axis is shared out in order.

        The array may not be touched before `Pending.wait`, which returns the part.

        Raises:
            TypeError: if the dtype is bool, which has no sum.
            ValueError: if the first axis is no multiple of ``size``.
        """
        array = _summable(array)
        if not array.ndim or array.shape[0] % self.size:
            raise ValueError(
                f"array's first axis must be a multiple of {self.size} ranks, but its shape is {array.shape}"
            )
        part = (array.shape[0] // self.size, *array.shape[1:])
        return self._begin(ops.begin_reduce_scatter, array, np.empty(part, array.dtype))

    def begin_all_gather(self, array: Array, out: Array | None = None) -> Pending:
        """Begin to join every rank's ``array``, of one shape, along the first axis in the order of ranks.

        ``array`` may be this rank's own part of ``out``. Neither may be touched before `Pending.wait`, which returns
        the whole.

        Raises:
            ValueError: if ``array`` has no axis, or ``out`` does not fit.
        """
        array = _sendable(array)
        if not array.ndim:
            raise ValueError("array must have an axis to be joined along: pass array[None]")
        own, length = None, array.shape[0]
        if out is not None and out.ndim:
            own = out[self.rank * length : (self.rank + 1) * length]
        whole = (length * self.size, *array.shape[1:])
        return self._begin(ops.begin_all_gather, array, _room(out, array, whole, in_place=own))

    def broadcast(self, array: Array, root: int = 0) -> Array:
        """Fill ``array`` on every rank with that of rank ``root``, of the same shape and dtype; return it.

        Raises:
            ValueError: if ``array`` is not in C order or ``root`` is not a rank.
        """
        self._checked_peer("root", root)
        if not array.flags.c_contiguous:
            raise ValueError(f"array must be in C order to be filled, but that of shape {array.shape} is not")
        return self._collective(ops.broadcast, _sendable(array), root=root)

    def barrier(self) -> None:
        """Return once every rank has called it."""
        self._collective(ops.barrier)

    def begin_send(self, array: Array, to: int, tag: int = 0) -> Pending:
        """Begin to send an array of any shape; it may not be changed before `Pending.wait`.

        Raises:
            ValueError: if ``to`` is no other rank.
        """
        self._checked_peer("to", to, other=True)
        array = _sendable(array)
        header = ops.header_of(array)
        pending = Pending(self, 0, (array, header), array)
        self._run(ops.begin_send, array, pending=pending, header=header, peer=to, tag=tag)
        return pending

    def receive(self, source: int, tag: int = 0) -> Array:
        """Return the next array that rank ``source`` sent with this tag.

        Raises:
            ValueError: if ``source`` is no other rank.
        """
        self._checked_peer("source", source, other=True)
        return self._run(ops.receive, peer=source, tag=tag)

    def exchange(self, value: Any) -> list[Any]:
        """Return the JSON values of all ranks, in the order of ranks. This is slow, and meant for set-up."""
        text, sizes = self._text(value)
        texts = np.empty(sizes.sum(), np.uint8)
        self.raw.Allgatherv(text, [texts, sizes])
        return _values(texts, sizes)

    def gather(self, value: Any) -> list[Any] | None:
        """Return on rank 0 what `exchange` returns, and None on the others, which receive nothing."""
        text, sizes = self._text(value)
        if self.rank:
            self.raw.Gatherv(text, None)
            return None
        texts = np.empty(sizes.sum(), np.uint8)
        self.raw.Gatherv(text, [texts, sizes])
        return _values(texts, sizes)

    def _text(self, value: Any) -> tuple[Array, Array]:
        """Return ``value`` as JSON in bytes, and how many every rank has: mpi4py would pickle text."""
        text = np.frombuffer(json.dumps(value, default=operator.index).encode(), np.uint8)
        sizes = np.empty(self.size, np.int64)
        self.raw.Allgather(np.array([text.size], np.int64), sizes)
        return text, sizes

    @contextmanager
    def together(self) -> Iterator[None]:
        """Run what no rank can do without the others: an error in the body ends all ranks, and this one says why.

        Where the run is `watched`, its watch does. Nobody could wait for a rank that caught the error and went on.
        """
        try:
            yield
        except BaseException as error:
            if self.size > 1 and not self.activity.watched:
                traceback.print_exception(error)
                sys.stderr.write(f"{self.places[self.rank]} failed, which ends all ranks\n")
                abort(self.raw)
            raise

    def duplicate(self) -> Communicator:
        """Return the same ranks as a group of its own, whose calls are matched apart from this one's."""
        self._children += 1
        return Communicator(self.raw.Dup(), f"{self.group}.{self._children}", self.activity)

    def split(self, color: int) -> Communicator:
        """Return the group of the ranks that gave the same ``color``, in their order."""
        self._children += 1
        return Communicator(self.raw.Split(color), f"{self.group}.{self._children}:{color}", self.activity)

    def agree(self, given: Given) -> None:
        """Raise ValueError unless the rank before this one makes the same call with an array of one shape and dtype.

        Around the ring of ranks that compares all of them. It takes a small message, whose way is part of the time that
        the collective waits for its last rank anyway.
        """
        if self._agreeing is not None:
            before, after = (self.rank - 1) % self.size, (self.rank + 1) % self.size
            theirs = np.empty(ops.DESCRIPTION, np.uint8)
            self._agreeing.Sendrecv(ops.encoded(given), after, recvbuf=theirs, source=before)
            self._compare(given, theirs, before)

    def begin_agreement(self, given: Given) -> Callable[[], None] | None:
        """Begin `agree`; what is returned completes it."""
        if self._agreeing is None:
            return None
        before, after = (self.rank - 1) % self.size, (self.rank + 1) % self.size
        mine, theirs = ops.encoded(given), np.empty(ops.DESCRIPTION, np.uint8)
        requests = [self._agreeing.Irecv(theirs, before), self._agreeing.Isend(mine, after)]

        def complete() -> None:
            for request in requests:
                request.Wait()
            self._compare(given, theirs, before)

        return complete

    def _compare(self, given: Given, theirs: Array, rank: int) -> None:
        mine = ops.encoded(given)
        if not np.array_equal(mine, theirs):
            told = theirs.tobytes().rstrip(b"\0").decode()
            raise ValueError(
                "ranks must make the same calls with arrays of one shape and dtype, but "
                f"{self.places[rank]} gives {told}, and {self.places[self.rank]} gives {given}"
            )

    def _checked_peer(self, name: str, rank: int, other: bool = False) -> None:
        if not 0 <= rank < self.size or (other and rank == self.rank):
            which = "another rank" if other else "a rank"
            raise ValueError(f"{name} must be {which} of 0 to {self.size - 1}, not {rank}")

    def _begin(self, op: Op, array: Array, out: Array) -> Pending:
        self._collectives += 1
        pending = Pending(self, self._collectives, (array,), out)
        self._run(op, array, sequence=self._collectives, pending=pending, out=out)
        return pending

    def _collective(self, op: Op, *inputs: Array, **params: Any) -> Array:
        self._collectives += 1
        return self._run(op, *inputs, sequence=self._collectives, **params)

    def _run(self, op: Op, *inputs: Array, sequence: int = 0, **params: Any) -> Array:
        self.activity.begin(op.name)
        made = dispatch.apply(
            op, *inputs, communicator=self, group=self.group, ranks=self.size, sequence=sequence, **params
        )
        self.activity.end()
        return made.data


def _values(texts: Array, sizes: Array) -> list[Any]:
    """Return the values whose JSON stands in ``texts``, so many bytes each, one behind the other."""
    return [json.loads(text.tobytes()) for text in np.split(texts, np.cumsum(sizes)[:-1])]


def _sendable(array: Array) -> Array:
    """Return ``array``, or a copy of it in C order."""
    dtype = array.dtype
    if not dtype.isnative or (dtype.str[1:] not in ops.SENDABLE and dtype.char not in ops.SENDABLE):
        raise TypeError(f"array must be of a dtype that MPI can send ({', '.join(ops.SENDABLE)}), not {dtype}")
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


def _summable(array: Array) -> Array:
    """Return what `_sendable` does, of numbers."""
    if array.dtype == np.bool_:
        raise TypeError("array must be of numbers to be summed, not bool: send array.astype(np.uint8)")
    return _sendable(array)


def _room(out: Array | None, array: Array, shape: tuple[int, ...], in_place: Array | None = None) -> Array:
    """Return ``out``, or a new array; ``out`` may share memory with ``array`` only where ``in_place`` is the same."""
    if out is None:
        return np.empty(shape, array.dtype)
    if out.shape != shape or out.dtype != array.dtype or not out.flags.c_contiguous:
        raise ValueError(f"out must be {array.dtype} of shape {shape} in C order, not {out.dtype} of shape {out.shape}")
    if np.may_share_memory(out, array) and (in_place is None or in_place.ctypes.data != array.ctypes.data):
        raise ValueError("out must not overlap array unless it stands where its result goes")
    return out


def world() -> Communicator:
    """Return the group of all ranks that ``mpiexec`` or a scheduler started; alone, a group of one.

    From then on an error that ends one rank's program ends those of all. ``sys.exit`` is no error: a rank that leaves
    by it while others wait for it lets them wait.

    Raises:
        MPIMissingError: if mpi4py or an MPI library is not installed.

    Examples:
        >>> from tinytorch.perf.distributed import world
        >>> group = world()  # not started by mpiexec: a group of one
        >>> group.rank, group.size
        (0, 1)
    """
    made = Communicator(load_mpi().COMM_WORLD, "world", Activity())
    if made.size > 1:
        _end_all_by_an_error()
    return made


def abort(raw: Any) -> None:
    """End all ranks, with exit code `FAILED`, once the launcher has read what this one wrote to its stderr.

    The launcher ends with the ranks and drops what a pipe still holds. It is waited for a second at most.
    """
    sys.stderr.flush()
    end, left = time.monotonic() + 1.0, bytearray([stat.S_ISFIFO(os.fstat(2).st_mode), 0, 0, 0])
    while any(left) and time.monotonic() < end:
        time.sleep(0.01)
        fcntl.ioctl(2, termios.FIONREAD, left)
    raw.Abort(FAILED)


@cache
def _end_all_by_an_error() -> None:
    """Let an error that ends this program end those of all ranks: others may be waiting for this one."""
    told = sys.excepthook

    def end(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        told(kind, error, trace)
        abort(load_mpi().COMM_WORLD)

    sys.excepthook = end


@cache
def _code_version() -> str:
    """Return a hash of the source of the whole package."""
    digest = hashlib.sha256()
    for source in sorted(_PACKAGE.rglob("*.py")):
        digest.update(source.relative_to(_PACKAGE).as_posix().encode())
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def model_facts(model: Module) -> dict[str, Any]:
    """Return shape and dtype of each parameter and buffer by name, as JSON can hold them."""
    tensors = [*model.named_parameters(), *model.named_buffers()]
    return {f"shape of {name}": [list(tensor.shape), str(tensor.dtype)] for name, tensor in tensors}


def check_agreement(communicator: Communicator, facts: dict[str, Any]) -> None:
    """Return if every rank gives the same facts, and runs the same versions; all ranks call it.

    Raises:
        ValueError: on every rank, with the first fact that differs from rank 0's, by its name, and both values.
    """
    versions = {"version of Python": platform.python_version(), "version of NumPy": np.__version__}
    everyone = communicator.exchange({**versions, "source of tinytorch": _code_version(), **facts})
    first = everyone[0]
    for rank, other in enumerate(everyone):
        for name in [*first, *sorted(other.keys() - first.keys())]:
            if name not in other or name not in first or first[name] != other[name]:
                raise ValueError(
                    f"all ranks must agree on the {name}, but it is {first.get(name, 'nothing')!r} on "
                    f"{communicator.places[0]} and {other.get(name, 'nothing')!r} on {communicator.places[rank]}"
                )
