"""A simulated server: it decides what each call does, and the call takes the time that was measured for it."""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np


@dataclass
class Request:
    """A request: when it arrives, how many tokens its prompt and its answer have, and when each token was written."""

    arrives: float
    prompt: int
    answer: int
    read: int = 0
    moments: list[float] = field(default_factory=list)

    @property
    def latency(self) -> float:
        """Seconds from arrival to the last token."""
        return self.moments[-1] - self.arrives

    @property
    def ttft(self) -> float:
        """Time to first token: seconds from arrival to the first token."""
        return self.moments[0] - self.arrives

    @property
    def tpot(self) -> float:
        """Time per output token: mean seconds from one token of the answer to the next."""
        return (self.moments[-1] - self.moments[0]) / max(len(self.moments) - 1, 1)

    @property
    def gap(self) -> float:
        """Longest time between two tokens of the answer, in seconds."""
        return float(np.diff(self.moments).max(initial=0.0))


@dataclass(frozen=True)
class Server:
    """A server that answers at most ``slots`` requests at a time.

    ``step`` returns the seconds of a step of a batch, and ``prefill`` the seconds of a prefill of some tokens. A
    ``static`` server accepts new requests when all of the last batch are answered, any other server as soon as a slot
    is free. It reads at most ``chunk`` tokens of prompts between two steps, or all that wait if ``chunk`` is None.
    """

    step: Callable[[int], float]
    prefill: Callable[[int], float]
    slots: int
    static: bool = False
    chunk: int | None = None

    def serve(self, requests: Sequence[Request]) -> float:
        """Answer all requests, which are in order of arrival, and return when the last answer is complete."""
        waiting, running, now = deque(requests), list[Request](), 0.0
        while waiting or running:
            if not running:
                now = max(now, waiting[0].arrives)
            if not (self.static and running):
                while waiting and waiting[0].arrives <= now and len(running) < self.slots:
                    running.append(waiting.popleft())
            held = self.slots if self.static else len(running)
            writing = [one for one in running if one.moments]
            now += self.step(held) if writing else 0.0
            for one in writing:
                one.moments.append(now)
            if len(writing) < len(running):
                now = self._read(running, now)
            running = [one for one in running if len(one.moments) < one.answer]
        return now

    def _read(self, running: Sequence[Request], now: float) -> float:
        """Read prompts of requests that have no token yet, and return when this is done."""
        left = self.chunk or sum(one.prompt for one in running)
        for one in running:
            count = min(one.prompt - one.read, left)
            if count:
                now, left, one.read = now + self.prefill(count), left - count, one.read + count
                if one.read == one.prompt:
                    one.moments.append(now)
        return now


def even_answers(count: int, longest: int, prompt: int) -> list[Request]:
    """Return requests that arrive together, whose answers have random lengths from one token to ``longest``."""
    lengths = np.random.default_rng(0).integers(1, longest + 1, count)
    return [Request(0.0, prompt, int(length)) for length in lengths]


def at_random(count: int, seconds: float, prompt: int, answer: int) -> list[Request]:
    """Return requests that arrive independently of one another, all within so many seconds."""
    moments = np.sort(np.random.default_rng(0).uniform(0, seconds, count))
    return [Request(float(moment), prompt, answer) for moment in moments]
