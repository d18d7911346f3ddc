"""Load: the same slow stretch, as a client sees it that waits for each answer, and as requests do that do not wait."""

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tinytorch import datasets
from tinytorch.chapters.noise.order import neighbours
from tinytorch.core.dispatch import no_grad
from tinytorch.core.transformers import GPT
from tinytorch.perf.measuring import Measurement, Modelled, own_loop
from tinytorch.perf.measuring.conditions import Conditions, Sample, new_turns
from tinytorch.perf.measuring.planning import rounds_within
from tinytorch.perf.memoization import empty_cache

#: Sequences that one request holds; series of either loop; and the quiet answers that one of them has time for.
_BATCH, _SERIES, _ANSWERS = 16, 10, 30
#: Share of its time for which requests that arrive keep a quiet server busy.
_LOAD = 0.6
#: When in a series the neighbours run, and from what multiple of a quiet answer on one is late.
_FROM, _UNTIL, _LATE = 0.2, 0.6, 2.0

#: When a request arrives: by the start of the series, the last answer, and the number of the request.
Arrival = Callable[[float, float, int], float]


@dataclass(frozen=True)
class Loops:
    """What requests met in either loop, a sample from each pair of series.

    Attributes:
        slow: how many times as long an answer takes in the slow stretch.
        closed, opened: share of requests that took more than twice as long as a quiet one.
        closed_by_formula, opened_by_formula: the same, by how slow the stretch was.
        hidden: by how many points the share is larger in the open loop.
        missed: by how many more than the formulas say.
    """

    slow: Measurement
    closed: Measurement
    opened: Measurement
    closed_by_formula: Modelled
    opened_by_formula: Modelled
    hidden: Measurement
    missed: Measurement


def requests(
    answer: Callable[[], None], seconds: float, arrival: Arrival, beside: Callable[[float], None]
) -> np.ndarray:
    """Return when each request that arrives within so many seconds arrived, was begun and was answered."""
    start = now = time.perf_counter()
    done: list[tuple[float, float, float]] = []
    while (arrived := arrival(start, now, len(done))) < start + seconds:
        while time.perf_counter() < arrived:
            pass
        begun = time.perf_counter()
        beside((begun - start) / seconds)
        answer()
        now = time.perf_counter()
        done.append((arrived - start, begun - start, now - start))
    return np.array(done)


def after_the_last(_start: float, last: float, _number: int) -> float:
    """Return when a request arrives in a closed loop."""
    return last


def each(seconds: float) -> Arrival:
    """Return when requests arrive of which one comes in each so many ``seconds``."""
    return lambda start, _last, number: start + seconds * number


def late_in_a_closed_loop(slow: float) -> float:
    """Return the share of answers that are given while each takes ``slow`` times as long."""
    during = (_UNTIL - _FROM) / slow
    return during / (during + 1 - (_UNTIL - _FROM))


def late_in_an_open_loop(slow: float) -> float:
    """Return the share of arrivals from when the queue begins to grow until it is empty again; 0 if nothing is slow."""
    return max(0.0, min(1 - _FROM, (_UNTIL - _FROM) * (1 - 1 / slow) / (1 - _LOAD)))


def under_load(model: GPT) -> Loops:
    """Return what two loops of requests to the zoo's GPT find while neighbours come and go in either."""
    prompts = datasets.sorting().test_inputs[:_BATCH, : datasets.SORT_LENGTH + 1]
    pairs: list[tuple[np.ndarray, np.ndarray]] = []
    with empty_cache(model, _BATCH) as cache, no_grad(), neighbours() as others:

        def answer() -> None:
            cache.reset()
            tokens = prompts
            for _ in range(datasets.SORT_LENGTH):
                tokens = model(tokens, last=True).data[:, -1].argmax(axis=-1)[:, None]

        def series(arrival: Arrival, seconds: float) -> np.ndarray:
            done = requests(answer, seconds, arrival, lambda part: others.run(_FROM <= part < _UNTIL))
            others.run(False)
            return done

        others.run(False)
        quiet = _quiet(answer)
        with own_loop(warmup_runs=_ANSWERS) as loop:
            for _ in rounds_within(10.0, _SERIES, fewest=2):
                closed, opened = (series(way, _ANSWERS * quiet) for way in (after_the_last, each(quiet / _LOAD)))
                pairs.append((closed, opened))
    # That neighbours took its core is the experiment here, and no disturbance of it.
    return met(pairs, quiet, replace(loop.conditions, cpu_per_wall=None))


def _quiet(answer: Callable[[], None]) -> float:
    """Return the median seconds of an answer while nothing is beside it."""
    taken = []
    for _ in range(_ANSWERS):
        start = time.perf_counter()
        answer()
        taken.append(time.perf_counter() - start)
    return float(np.median(taken))


def met(pairs: list[tuple[np.ndarray, np.ndarray]], quiet: float, conditions: Conditions) -> Loops:
    """Return what the requests of each pair of series, of a closed loop and an open one, come to."""
    trials = replace(conditions, sample=Sample.TRIALS, turns=new_turns())

    def of(what: str, numbers: list[float], unit: str = "%") -> Measurement:
        return Measurement(what, tuple(numbers), unit, trials)

    def late(done: np.ndarray) -> float:
        return float(np.mean(done[:, 2] - done[:, 0] > _LATE * quiet))

    def slowdown(done: np.ndarray) -> float:
        during = (done[:, 1] >= _FROM * _ANSWERS * quiet) & (done[:, 1] < _UNTIL * _ANSWERS * quiet)
        return float(np.median((done[:, 2] - done[:, 1])[during])) / quiet

    slow = [slowdown(closed) for closed, _ in pairs]
    closed, opened = ([late(pair[at]) for pair in pairs] for at in (0, 1))
    law_closed, law_opened = [late_in_a_closed_loop(one) for one in slow], [late_in_an_open_loop(one) for one in slow]
    hidden = np.subtract(opened, closed)
    by = "how slow the slow period was"
    return Loops(
        of("an answer in the slow stretch over a quiet one", slow, ""),
        of("late requests, closed loop", closed),
        of("late requests, open loop", opened),
        Modelled.by(by, of("late requests by the formula, closed loop", law_closed)),
        Modelled.by(by, of("late requests by the formula, open loop", law_opened)),
        of("the share of late requests in the open loop less that in the closed one", hidden.tolist(), "points"),
        of("the same beyond the formulas", (hidden - np.subtract(law_opened, law_closed)).tolist(), "points"),
    )
