"""Recording on several ranks: the profile of each rank, the waits in calls of communication, and the stragglers.

    with recorded(world()) as recording: train(...)
    timeline = recording.gather()  # on all ranks; None on all but rank 0

All processes of a host read the same clock, so the times of their events are comparable as they are. A rank cannot
know during a call which rank it waits for, and to ask the others would change what is measured. So the calls of all
ranks are put together afterwards, and the last rank that came to a call is the one that the others waited for
(M. Geimer et al., 2010, doi:10.1002/cpe.1556).
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from tinytorch.core.dispatch import Observer, observed_by
from tinytorch.core.op import Array, Call, Saved
from tinytorch.perf.distributed.ranks.collective_ops import BEGINNINGS, COMMUNICATION
from tinytorch.perf.distributed.ranks.communicator import Communicator
from tinytorch.perf.events.stream import Profile, Recorder
from tinytorch.perf.measuring import collector_off
from tinytorch.perf.measuring.codec import from_json, to_json

#: What the calls of different ranks share that are one communication.
Key = tuple[str | int, ...]


class RankCall(NamedTuple):
    """One communication operation as one rank took part in it.

    Attributes:
        key: group and sequence of a collective; of a message its group, sender, receiver, tag, and number among
            those, as MPI does not let messages overtake one another.
        kind: the collective, such as ``all_reduce``, or "message".
        size: the number of ranks that take part.
        is_root: whether this rank is the one whose array a broadcast hands round.
        arrival: when the rank entered the call, in ns.
        blocked: start and end, in ns, of the events in which the rank could do nothing else: the call itself, or the
            wait for what it began.
    """

    key: Key
    kind: str
    size: int
    is_root: bool
    arrival: int
    blocked: list[tuple[int, int]]


class CallRecorder(Observer):
    """Keeps the calls of communication that begin while it observes."""

    def __init__(self) -> None:
        self.calls: list[RankCall] = []
        self._begun: dict[int, RankCall] = {}
        self._messages: Counter[Key] = Counter()

    def after_op(self, call: Call, inputs: tuple[Any, ...], outputs: tuple[Array | None, ...], saved: Saved) -> None:
        """Keep the call, or add a wait to the call that it completes."""
        del inputs, outputs, saved
        name, params = call.op.name, call.params
        if name not in COMMUNICATION:
            return
        pending = params.get("pending")
        if pending is None or name in BEGINNINGS:
            rank_call = self._new_call(name, call)
            if pending is not None:
                self._begun[id(pending)] = rank_call
        elif id(pending) in self._begun:
            rank_call = self._begun[id(pending)]
        else:
            return  # the call began before the recording
        if name != "poll" and name not in BEGINNINGS:
            rank_call.blocked.append((call.start, call.end))

    def _new_call(self, name: str, call: Call) -> RankCall:
        params = call.params
        member, peer = params["communicator"].rank, params.get("peer", -1)
        kind, size = name.removeprefix("begin_"), params["ranks"]
        key: Key = (params["group"], params["sequence"])
        if peer >= 0:
            ends = (member, peer) if kind == "send" else (peer, member)
            message: Key = (params["group"], *ends, params["tag"])
            self._messages[message] += 1
            kind, size, key = "message", 2, (*message, self._messages[message])
        new = RankCall(key, kind, size, params.get("root") == member, call.start, [])
        self.calls.append(new)
        return new


class Delay(NamedTuple):
    """One communication operation in which ranks waited for another rank.

    Attributes:
        rank: whom they waited for.
        kind: the collective, such as ``all_reduce``, or "message".
        waited: seconds by the rank that waited.
    """

    rank: int
    kind: str
    waited: dict[int, float]

    @property
    def seconds(self) -> float:
        """Waits of all ranks, added up."""
        return sum(self.waited.values())


@dataclass(frozen=True)
class Timeline:
    """Recordings of all ranks on the clock of their host.

    Attributes:
        profiles: events and module calls of each rank; times are those of ``time.perf_counter_ns``.
        calls: each rank's calls of communication.
    """

    profiles: tuple[Profile, ...]
    calls: tuple[tuple[RankCall, ...], ...]

    def delays(self) -> list[Delay]:
        """Return every communication in which ranks waited for another one, the costliest first.

        Raises:
            ValueError: if two groups have the same name.
        """
        communications: dict[Key, dict[int, RankCall]] = defaultdict(dict)
        for rank, calls in enumerate(self.calls):
            for call in calls:
                if rank in communications[call.key]:
                    raise ValueError(
                        f"rank {rank} made collective {call.key[1]} of group {call.key[0]!r} twice, so two "
                        "groups have this name: make the second group with Communicator.duplicate, not with world()"
                    )
                communications[call.key][rank] = call
        delays = [_delay(ranks) for ranks in communications.values()]
        return sorted((delay for delay in delays if delay and delay.waited), key=lambda delay: -delay.seconds)

    def stragglers(self) -> dict[int, float]:
        """Return the seconds that other ranks waited for a rank, by rank, the largest first."""
        seconds: dict[int, float] = defaultdict(float)
        for delay in self.delays():
            seconds[delay.rank] += delay.seconds
        return dict(sorted(seconds.items(), key=lambda item: -item[1]))


def _delay(ranks: dict[int, RankCall]) -> Delay | None:
    """Return who waited in one communication; None if the call of some rank began before the recording."""
    first = next(iter(ranks.values()))
    if len(ranks) < first.size:
        return None
    root = next((rank for rank, call in ranks.items() if call.is_root), None)
    awaited = max(ranks, key=lambda rank: ranks[rank].arrival) if root is None else root
    arrival = ranks[awaited].arrival
    waits = {
        # An event that ended before the other rank came, as that of an early message, waited for nobody.
        rank: sum(max(0, arrival - start) for start, end in call.blocked if end >= arrival) * 1e-9
        for rank, call in ranks.items()
    }
    return Delay(awaited, first.kind, {rank: seconds for rank, seconds in waits.items() if seconds})


class RankRecording:
    """Recording of this rank in the body of `recorded`; ``profile`` is set when the body ends.

    Examples:
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.perf.distributed import world
        >>> from tinytorch.perf.distributed.recording import recorded
        >>> with recorded(world()) as recording:
        ...     y = Linear(8, 4)(Tensor([[1.0] * 8]))
        >>> type(recording).__name__, recording.profile is not None
        ('RankRecording', True)
    """

    def __init__(self, communicator: Communicator, calls: list[RankCall]) -> None:
        self._communicator, self._calls = communicator, calls
        self.profile: Profile | None = None

    def gather(self) -> Timeline | None:
        """Return the recordings of all ranks as a timeline on rank 0, and None on the others; all ranks must call it.

        Raises:
            RuntimeError: inside the body.
        """
        if self.profile is None:
            raise RuntimeError("nothing is recorded yet: gather after the body of `with recorded(...)`")
        profile = replace(self.profile, events=tuple(self.profile.events))
        ranks = self._communicator.gather([to_json(profile), self._calls])
        if ranks is None:
            return None
        return Timeline(
            tuple(from_json(made, Profile, "profile") for made, _ in ranks),
            tuple(tuple(map(_rank_call, calls)) for _, calls in ranks),
        )


def _rank_call(row: list[Any]) -> RankCall:
    """Return the call that JSON has as a list, in which every tuple is one."""
    key, kind, size, is_root, arrival, blocked = row
    return RankCall(tuple(key), kind, size, is_root, arrival, [(start, end) for start, end in blocked])


@contextmanager
def recorded(communicator: Communicator) -> Iterator[RankRecording]:
    """Record every op and module call of the body on this rank; all ranks enter together.

    The body begins on all ranks at once, and the garbage collector is off in it. No message may be in flight when it
    begins. Calls of other communicators are recorded too, if each group has a name of its own: make them with
    ``Communicator.duplicate`` and `Communicator.split`, and call `world` once.

    Raises:
        ValueError: if the ranks run on several hosts, whose clocks differ.

    Examples:
        >>> from tinytorch import Linear, Tensor
        >>> from tinytorch.perf.distributed import world
        >>> from tinytorch.perf.distributed.recording import recorded
        >>> layer, x = Linear(8, 4), Tensor([[1.0] * 8])
        >>> with recorded(world()) as recording:
        ...     y = layer(x)
        >>> timeline = recording.gather()
        >>> len(timeline.profiles)  # one for each rank
        1
    """
    hosts = sorted({place.host for place in communicator.places})
    if len(hosts) > 1:
        raise ValueError(f"ranks must run on one host to be recorded, as each host has its own clock, not on {hosts}")
    recorder, calls = Recorder(), CallRecorder()
    with collector_off():  # which collects first, on some ranks for longer than on others
        recording = RankRecording(communicator, calls.calls)
        communicator.raw.Barrier()
        start = time.perf_counter_ns()
        with observed_by(recorder, calls):
            yield recording
        recording.profile = recorder.profile(start, time.perf_counter_ns())
