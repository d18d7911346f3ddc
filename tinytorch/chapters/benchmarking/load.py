"""Load: the same slow stretch, as a client sees it that waits for each answer, and as requests do that do not wait."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tinytorch import datasets
from tinytorch.chapters.noise.order import FOR_EACH_CORE, neighbours
from tinytorch.core.dispatch import no_grad
from tinytorch.core.transformers import GPT
from tinytorch.perf.host.pinned_threads import usable_cores
from tinytorch.perf.measuring import Measurement, Modelled, difference, own_loop
from tinytorch.perf.measuring.conditions import Conditions, Sample, new_turns
from tinytorch.perf.memoization import empty_cache

#: Sequences that one request holds; series of either loop; and the quiet answers that one of them has time for.
_BATCH, _SERIES, _ANSWERS = 16, 12, 30
#: Share of its time for which requests that arrive keep a quiet server busy.
_LOAD = 0.6
#: When in a series the neighbours run, and from what multiple of a quiet answer on one is late.
_FROM, _UNTIL, _LATE = 0.2, 0.6, 2.0

#: The moments of a request: when it arrived, and when each token was there.
Moments = Sequence[float]
#: When a request arrives: by the start of the series, the last answer, and the number of the request.
Arrival = Callable[[float, float, int], float]


@dataclass(frozen=True)
class Loop:
    """What requests met, a sample from each series.

    Attributes:
        name: how they were sent.
        first: median seconds to the first token.
        between: median seconds from one token to the next.
        late: share of requests that took more than twice as long as a quiet one.
        predicted: the same, where neighbours leave the server its fair share of the cores.
    """

    name: str
    first: Measurement
    between: Measurement
    late: Measurement
    predicted: Modelled


def requests(
    answer: Callable[[], list[float]], seconds: float, arrival: Arrival, beside: Callable[[float], None]
) -> list[list[float]]:
    """Return the moments of all requests that arrive within so many seconds."""
    start = now = time.perf_counter()
    done: list[list[float]] = []
    while (arrived := arrival(start, now, len(done))) < start + seconds:
        while time.perf_counter() < arrived:
            pass
        beside((time.perf_counter() - start) / seconds)
        moments = answer()
        now = moments[-1]
        done.append([arrived, *moments])
    return done


def after_the_last() -> Arrival:
    """Return when requests arrive in a closed loop."""
    return lambda _start, last, _number: last


def each(seconds: float) -> Arrival:
    """Return when requests arrive of which one comes in each so many ``seconds``."""
    return lambda start, _last, number: start + seconds * number


def under_load(model: GPT, closed: str, opened: str) -> dict[str, Loop]:
    """Return what two loops of requests to the zoo's GPT find, by name, while neighbours come and go in either.

    The loop ``closed`` waits for each answer; the requests of the one ``opened`` arrive at even distances.
    """
    prompts = datasets.sorting().test_inputs[:_BATCH, : datasets.SORT_LENGTH + 1]
    cores = len(usable_cores())
    found: dict[str, list[list[Moments]]] = {closed: [], opened: []}
    with empty_cache(model, _BATCH) as cache, no_grad(), neighbours() as others:

        def answer() -> list[float]:
            cache.reset()
            tokens, moments = prompts, []
            for _ in range(datasets.SORT_LENGTH):
                tokens = model(tokens, last=True).data[:, -1].argmax(axis=-1)[:, None]
                moments.append(time.perf_counter())
            return moments

        def beside(part: float) -> None:
            others.run(_FROM <= part < _UNTIL)

        others.run(False)
        quiet = _quiet(answer)
        with own_loop(warmup_runs=_ANSWERS) as loop:
            for _ in range(_SERIES):
                for name, arrival in ((closed, after_the_last()), (opened, each(quiet / _LOAD))):
                    found[name].append(list(requests(answer, _ANSWERS * quiet, arrival, beside)))
                    others.run(False)
    # That neighbours took its core is the experiment here, and no disturbance of it.
    conditions = replace(loop.conditions, cpu_per_wall=None, sample=Sample.TRIALS)
    slow = (FOR_EACH_CORE * cores + 1) / cores
    shares = {closed: _late_in_a_closed_loop(slow), opened: _late_in_an_open_loop(slow)}
    return _loops(found, quiet, shares, conditions)


def _quiet(answer: Callable[[], list[float]]) -> float:
    """Return the median seconds of an answer while nothing is beside it."""
    taken = []
    for _ in range(_ANSWERS):
        start = time.perf_counter()
        taken.append(answer()[-1] - start)
    return float(np.median(taken))


def _late_in_a_closed_loop(slow: float) -> float:
    """Return the share of answers that are given while each takes ``slow`` times as long."""
    during = (_UNTIL - _FROM) / slow
    return during / (during + 1 - (_UNTIL - _FROM))


def _late_in_an_open_loop(slow: float) -> float:
    """Return the share of arrivals from when the queue begins to grow until it is empty again."""
    return min(1 - _FROM, (_UNTIL - _FROM) * (1 - 1 / slow) / (1 - _LOAD))


def _loops(
    found: Mapping[str, Sequence[Sequence[Moments]]], quiet: float, shares: Mapping[str, float], conditions: Conditions
) -> dict[str, Loop]:
    """Return what the moments of each loop's series come to."""
    turns, made = new_turns(), {}
    for name, series in found.items():
        others = tuple(other for other in found if other != name)
        known = replace(conditions, interleaved_with=others, turns=turns)
        taken = [np.array(each) for each in series]

        def of(
            what: str,
            number: Callable[[np.ndarray], float],
            unit: str = "s",
            taken: list[np.ndarray] = taken,
            name: str = name,
            known: Conditions = known,
        ) -> Measurement:
            return Measurement(f"{what}, {name}", tuple(float(number(each)) for each in taken), unit, known)

        made[name] = Loop(
            name,
            of("time to the first token", lambda each: np.median(each[:, 1] - each[:, 0])),
            of("time between tokens", lambda each: np.median(np.diff(each[:, 1:]).mean(axis=1))),
            of("late requests", lambda each: np.mean(each[:, -1] - each[:, 0] > _LATE * quiet), "%"),
            Modelled(shares[name], "%", f"late requests, {name}", "fair shares of the cores"),
        )
    return made


def hidden(loops: Mapping[str, Loop], closed: str, opened: str) -> Measurement:
    """Return by how many points the share of late requests is larger in the open loop."""
    more = difference(loops[opened].late, loops[closed].late, "share of late requests, open loop less closed loop")
    return replace(more, unit="points")
