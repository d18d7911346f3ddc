"""A server of texts, simulated: who waits, who is read, who writes, where each call takes what was measured of it."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Request:
    """A text that is asked for: when it arrives, tokens of its prompt and of its answer, and when these were there."""

    arrives: float
    prompt: int
    answer: int
    read: int = 0
    moments: list[float] = field(default_factory=list)

    @property
    def took(self) -> float:
        """Seconds from its arrival to its last token."""
        return self.moments[-1] - self.arrives

    @property
    def first(self) -> float:
        """Seconds from its arrival to its first token."""
        return self.moments[0] - self.arrives

    @property
    def token(self) -> float:
        """Mean seconds from one token of the answer to the next."""
        return (self.moments[-1] - self.moments[0]) / max(len(self.moments) - 1, 1)

    @property
    def gap(self) -> float:
        """Longest wait between two tokens of the answer."""
        return float(np.diff(self.moments).max(initial=0.0))


@dataclass(frozen=True)
class Server:
    """What a server does and takes: seconds of a step of so many texts and of a prefill of so many tokens.

    ``rows`` texts are written together at most. A ``static`` server takes new ones when all before are done, another as
    soon as a row is free. ``chunk`` is how many tokens of prompts it reads at most between two steps, None for all.
    """

    step: Callable[[int], float]
    prefill: Callable[[int], float]
    rows: int
    static: bool = False
    chunk: int | None = None

    def serve(self, requests: Sequence[Request]) -> float:
        """Write all answers into the requests, which are in order of arrival; return the seconds that it took."""
        waiting, running, now = deque(requests), list[Request](), 0.0
        while waiting or running:
            if not running:
                now = max(now, waiting[0].arrives)
            if not (self.static and running):
                while waiting and waiting[0].arrives <= now and len(running) < self.rows:
                    running.append(waiting.popleft())
            held = self.rows if self.static else len(running)
            writing = [one for one in running if one.moments]
            now += self.step(held) if writing else 0.0
            for one in writing:
                one.moments.append(now)
            if len(writing) < len(running):
                now = self._read(running, now)
            running = [one for one in running if len(one.moments) < one.answer]
        return now

    def _read(self, running: Sequence[Request], now: float) -> float:
        """Read prompts of those that have no token yet; return when this is done."""
        left = self.chunk or sum(one.prompt for one in running)
        for one in running:
            count = min(one.prompt - one.read, left)
            if count:
                now, left, one.read = now + self.prefill(count), left - count, one.read + count
                if one.read == one.prompt:
                    one.moments.append(now)
        return now


def even_answers(count: int, longest: int, prompt: int) -> list[Request]:
    """Return requests that come together, whose answers have each length up to the longest as often, drawn."""
    lengths = np.random.default_rng(0).integers(1, longest + 1, count)
    return [Request(0.0, prompt, int(length)) for length in lengths]


def at_random(count: int, each: float, prompt: int, answer: int) -> list[Request]:
    """Return requests that come independently of one another, in the mean one in ``each`` seconds."""
    moments = np.random.default_rng(0).exponential(each, count).cumsum()
    return [Request(float(moment), prompt, answer) for moment in moments]
