"""LoadGen's early stopping: how many queries it takes until a latency bound holds with 99 % confidence."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Literal, Protocol

import numpy as np
import numpy.typing as npt
from scipy.special import betainc

from tinytorch.perf.benchmarking.performance import share_right
from tinytorch.perf.benchmarking.variants import Task, Variant, task_of, variant_of
from tinytorch.perf.measuring import Measurement, collector_off
from tinytorch.perf.measuring.repeats import as_repeated
from tinytorch.perf.measuring.statistics import Samples, checked

#: LoadGen's, which are no settings there either.
CONFIDENCE = 0.99


@lru_cache(maxsize=4096)
def fewest_within(over: int, share: float) -> int:
    """Return the fewest queries within the bound that prove a ``share`` of all to be within, if ``over`` are not.

    With h within and t over, the chance of so few over in a system that keeps exactly that share is at most the
    regularized incomplete beta function I_share(h, t + 1); the smallest h is returned with that at most 1 %. For none
    over it is 44 at 0.9 and 459 at 0.99.

    Source: MLPerf inference, LoadGen, early_stopping.cc, MinPassingQueriesFinder, with tolerance 0; V. J. Reddi et al.,
    MLPerf Inference Benchmark, ISCA 2020.

    Raises:
        ValueError: if ``over`` is below 0 or ``share`` does not lie between 0 and 1.
    """
    if over < 0:
        raise ValueError(f"over must be at least 0, not {over}")
    if not 0 < share < 1:
        raise ValueError(f"share must lie between 0 and 1, such as 0.9, not {share}")
    low, high = 0, 1
    while not _proves(high, over, share):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if _proves(middle, over, share) else (middle, high)
    return high


def _proves(within: int, over: int, share: float) -> bool:
    return bool(betainc(within, over + 1, share) <= 1 - CONFIDENCE)


def fewest_queries(share: float, over: int = 1) -> int:
    """Return how many queries early stopping needs: 64 for the 90th percentile, 662 for the 99th, with ``over`` 1.

    An estimate of a percentile is one of its samples, so at least one lies at or over it; a latency bound may have 0.
    """
    return fewest_within(over, share) + over


def proven_percentile(latencies: Samples, share: float) -> float | None:
    """Return what the percentile is at most, with 99 % confidence: LoadGen's estimate, in the latencies' unit.

    Of n latencies it is the t-th largest, with the largest t for which n are enough (see `fewest_queries`), and so
    never below the percentile of the sample. None if there are fewer than even the largest needs.

    Source: MLPerf inference, LoadGen, results.cc, PerformanceSummary::EarlyStopping.

    Raises:
        ValueError: if ``latencies`` are empty or not finite, or ``share`` is out of its range.
    """
    array = np.sort(checked(latencies, "latencies"))
    if fewest_queries(share) > array.size:
        return None
    low, high = 1, array.size
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fewest_queries(share, middle) <= array.size else (low, middle)
    return float(array[array.size - low])


Scenario = Literal["single-stream", "multi-stream", "server", "offline"]
SINGLE_STREAM: Final = "single-stream"
MULTI_STREAM: Final = "multi-stream"
SERVER: Final = "server"
OFFLINE: Final = "offline"
#: Share of the queries that the latency is told of, or that the bound must hold for.
PERCENTILES: dict[str, float] = {SINGLE_STREAM: 0.9, MULTI_STREAM: 0.99, SERVER: 0.99}
#: Samples of a query of multi-stream, and the fewest samples of offline.
STREAMS, OFFLINE_SAMPLES = 8, 24_576
#: Seconds before an arrival at which waiting turns into looking at the clock: a sleep ends late by about as much.
_SPIN = 0.0005


class Clock(Protocol):
    """Clock that tells the time and waits for an arrival; tests have one that they turn themselves."""

    def now(self) -> float:
        """Return seconds."""

    def wait_until(self, moment: float) -> None:
        """Return as soon as `now` is not before ``moment``."""


class WallClock:
    """The machine's clock."""

    def now(self) -> float:
        """Return seconds since some moment."""
        return time.perf_counter_ns() * 1e-9

    def wait_until(self, moment: float) -> None:
        """Sleep, and look at the clock for the last half millisecond."""
        left = moment - self.now()
        if left > _SPIN:
            time.sleep(left - _SPIN)
        while self.now() < moment:
            pass


@dataclass(frozen=True)
class ScenarioResult:
    """Result of a performance run of a scenario.

    Attributes:
        scenario: its name.
        latencies: seconds of each query, in the order issued; in server from its arrival on, its wait included.
        metric: the number that the scenario is about, or None where it cannot be told: seconds that the 90th (99th)
            percentile is at most in single-stream (multi-stream), queries/s in server if the bound held, items/s in
            offline.
        valid: whether all rules were kept.
        because: each rule that was not, a sentence; empty if valid.
        missing: queries (in offline samples) that the counts and early stopping lack, 0 if none; None if the latency
            bound was broken by more queries than it allows, which no further queries mend.
        seconds: from the first issue to the last answer; in server at least to the arrival that was issued no more.
        rate: arrivals a second that were asked for in server, else None.
        seed: of the samples' order and the arrivals.
    """

    scenario: Scenario
    latencies: Measurement
    metric: Measurement | None
    valid: bool
    because: tuple[str, ...]
    missing: int | None
    seconds: float
    rate: float | None
    seed: int


@dataclass(frozen=True)
class AccuracyRun:
    """Result of an accuracy run: the share of the whole data set that is right, each example once."""

    scenario: Scenario
    accuracy: Measurement


def run_scenario(
    scenario: Scenario,
    model: Any,
    data: Any,
    *,
    least_seconds: float = 1.0,
    at_most_seconds: float = 30.0,
    least_queries: int | None = None,
    rate: float | None = None,
    latency_bound: float | None = None,
    batch: int = 1,
    seed: int = 0,
    clock: Clock | None = None,
) -> ScenarioResult:
    """Return what the performance mode of a scenario finds: real requests, answered by the model, on a real clock.

    ``single-stream`` sends one sample as soon as the last is answered; ``multi-stream`` eight at once; ``server`` sends
    one at each arrival of a Poisson process and answers in their order; ``offline`` sends all at once. The samples are
    drawn from ``seed``, with replacement, as LoadGen does.

    Args:
        scenario: its name.
        model: a Module or a `Variant`.
        data: see `measure_performance`.
        least_seconds: for which queries are issued at least; LoadGen's submissions have 600.
        at_most_seconds: after which none is issued, so that a run ends; it then may be invalid.
        least_queries: by default what early stopping needs, 64 in single-stream and 662 in multi-stream, 459 in server,
            which is no query over the bound; 24,576 samples in offline.
        rate: server's arrivals a second.
        latency_bound: seconds that 99 % of server's queries must be answered in.
        batch: most samples that the model is given at a time, in server of those that have arrived, and in offline.
        seed: of samples and arrivals.
        clock: instead of the machine's.

    Raises:
        ValueError: if the scenario is none, a number is out of its range, or ``rate`` and ``latency_bound`` are missing
            in server or given elsewhere.
        TypeError: as `measure_performance` does.
    """
    _check(scenario, least_seconds, at_most_seconds, least_queries, rate, latency_bound, batch)
    task, variant, watch = task_of(data), variant_of("model", model), clock or WallClock()
    draw = np.random.default_rng(seed)
    needed = least_queries or _least_queries(scenario)
    limits = _Limits(needed, least_seconds, at_most_seconds)
    with variant.running(), collector_off():
        answer = _answering(task, variant)
        for size in {1, batch if scenario in (SERVER, OFFLINE) else 1, STREAMS if scenario == MULTI_STREAM else 1}:
            answer(draw.integers(0, len(task.inputs), size))  # the first call of a size compiles and allocates
        if scenario == SERVER:
            assert rate is not None
            issued = _serve(answer, draw, len(task.inputs), limits, rate, batch, watch)
        elif scenario == OFFLINE:
            issued = _all_at_once(answer, draw, len(task.inputs), limits, batch, watch)
        else:
            size = STREAMS if scenario == MULTI_STREAM else 1
            issued = _one_after_the_other(answer, draw, len(task.inputs), limits, size, watch)
    return _judged(scenario, issued, limits, rate, latency_bound, seed)


def accuracy_run(scenario: Scenario, model: Any, data: Any) -> AccuracyRun:
    """Return what the accuracy mode of a scenario finds: which share of the data set is right, each example once.

    The scenario gives the result its name. Answers do not depend on when a request arrives, so that the examples are
    asked for in calls of many.

    Raises:
        ValueError: if the scenario is none, or the right answers are not known.
        TypeError: as `measure_performance` does.
    """
    _check_name(scenario)
    task, variant = task_of(data), variant_of("model", model)
    if task.targets is None:
        raise ValueError("data must have targets for an accuracy run: pass (inputs, targets)")
    right = variant.correct(task)
    assert right is not None
    return AccuracyRun(scenario, share_right(f"accuracy, {scenario}", right))


@dataclass(frozen=True)
class _Limits:
    queries: int
    least_seconds: float
    at_most_seconds: float

    def goes_on(self, done: int, seconds: float) -> bool:
        """Return whether another query is to be issued."""
        return seconds < self.at_most_seconds and (done < self.queries or seconds < self.least_seconds)


@dataclass(frozen=True)
class _Issued:
    """Latency of each query in seconds, how long all took, and how many samples they were."""

    latencies: Sequence[float]
    seconds: float
    samples: int


Answer = Callable[[npt.NDArray[np.int64]], Any]


def _answering(task: Task, variant: Variant) -> Answer:
    return lambda chosen: variant.call(task, task.inputs[chosen])


def _one_after_the_other(
    answer: Answer, draw: np.random.Generator, examples: int, limits: _Limits, size: int, clock: Clock
) -> _Issued:
    latencies: list[float] = []
    start = clock.now()
    end = start
    while limits.goes_on(len(latencies), end - start):
        chosen = draw.integers(0, examples, size)
        issued = clock.now()
        answer(chosen)
        end = clock.now()
        latencies.append(end - issued)
    return _Issued(latencies, end - start, size * len(latencies))


def _serve(
    answer: Answer,
    draw: np.random.Generator,
    examples: int,
    limits: _Limits,
    rate: float,
    batch: int,
    clock: Clock,
) -> _Issued:
    """Answer a Poisson process's arrivals in their order, up to ``batch`` of those that wait at a time."""
    latencies: list[float] = []
    start = clock.now()
    arrivals = [start + float(draw.exponential(1 / rate))]
    end = start
    while limits.goes_on(len(latencies), arrivals[len(latencies)] - start):
        clock.wait_until(arrivals[len(latencies)])
        now, waiting = clock.now(), 1
        while True:
            following = len(latencies) + waiting
            if following == len(arrivals):
                arrivals.append(arrivals[-1] + float(draw.exponential(1 / rate)))
            later = arrivals[following] > now or not limits.goes_on(following, arrivals[following] - start)
            if later or waiting == batch:
                break
            waiting += 1
        first = len(latencies)
        answer(draw.integers(0, examples, waiting))
        end = clock.now()
        latencies += [end - arrival for arrival in arrivals[first : first + waiting]]
    # It stood ready until the arrival that was not issued any more.
    return _Issued(latencies, max(end, arrivals[len(latencies)]) - start, len(latencies))


def _all_at_once(
    answer: Answer, draw: np.random.Generator, examples: int, limits: _Limits, batch: int, clock: Clock
) -> _Issued:
    """Answer one query of all samples, batch by batch; its samples go on until the least duration is over."""
    start = clock.now()
    end, samples = start, 0
    while limits.goes_on(samples, end - start):
        answer(draw.integers(0, examples, batch))
        samples += batch
        end = clock.now()
    return _Issued([end - start], end - start, samples)


def _judged(
    scenario: Scenario, issued: _Issued, limits: _Limits, rate: float | None, bound: float | None, seed: int
) -> ScenarioResult:
    """Return the result with its metric and every rule that was broken."""
    if not issued.latencies:
        raise ValueError(f"at_most_seconds {limits.at_most_seconds:g} must be long enough for one query")
    how = {"scenario": scenario, "least_seconds": limits.least_seconds, "seed": seed, "samples": issued.samples}
    latencies = as_repeated(Measurement(f"latency, {scenario}", tuple(issued.latencies), "s", how))
    count = issued.samples if scenario == OFFLINE else latencies.n
    missing: int | None = max(0, limits.queries - count)
    because = [] if not missing else [f"{missing} of {limits.queries} queries are missing"]
    if issued.seconds < limits.least_seconds:
        because.append(f"it ran for {issued.seconds:.3g} s, not for at least {limits.least_seconds:g} s")
    metric: Measurement | None
    if scenario == OFFLINE:
        metric = Measurement("throughput, offline", (issued.samples / issued.seconds,), "items/s", how)
    elif scenario == SERVER:
        assert rate is not None
        assert bound is not None
        lacking, words = _lacking(latencies.samples, bound)
        because += words
        missing = None if lacking is None or missing is None else max(missing, lacking)
        metric = None if because else Measurement("arrivals, server", (rate,), "queries/s", how)
    else:
        share = PERCENTILES[scenario]
        least = fewest_queries(share)
        if latencies.n < least:
            because.append(f"early stopping needs {least} queries for the {100 * share:g}th percentile")
            missing = max(missing or 0, least - latencies.n)
        proven = proven_percentile(latencies.samples, share)
        words_of = {**how, "statistic": f"percentile {100 * share:g} is at most, 99 %"}
        metric = None if proven is None else Measurement(f"latency, {scenario}", (proven,), "s", words_of)
    return ScenarioResult(scenario, latencies, metric, not because, tuple(because), missing, issued.seconds, rate, seed)


def _lacking(latencies: Sequence[float], bound: float) -> tuple[int | None, list[str]]:
    """Return how many queries are missing to prove the bound, None if none can, and what is wrong in words."""
    share = PERCENTILES[SERVER]
    over, count = sum(one > bound for one in latencies), len(latencies)
    said = f"{over} of {count} queries took longer than {1e3 * bound:g} ms"
    if over > (1 - share) * count and over > 0:
        return None, [f"{said}, more than {1 - share:.0%}: the bound does not hold at this rate"]
    lacking = max(0, fewest_within(over, share) + over - count)
    return lacking, [f"{said}: {lacking} queries are missing to prove the bound"] if lacking else []


def _least_queries(scenario: str) -> int:
    if scenario == OFFLINE:
        return OFFLINE_SAMPLES
    return fewest_queries(PERCENTILES[scenario], 0 if scenario == SERVER else 1)


def _check_name(scenario: str) -> None:
    if scenario not in (*PERCENTILES, OFFLINE):
        raise ValueError(f"scenario must be one of {', '.join((*PERCENTILES, OFFLINE))}, not {scenario!r}")


def _check(
    scenario: str,
    least_seconds: float,
    at_most_seconds: float,
    least_queries: int | None,
    rate: float | None,
    bound: float | None,
    batch: int,
) -> None:
    _check_name(scenario)
    if not 0 <= least_seconds <= at_most_seconds < math.inf or at_most_seconds == 0:
        raise ValueError(
            f"least_seconds must be at least 0 and at_most_seconds not less, not {least_seconds} and {at_most_seconds}"
        )
    if least_queries is not None and least_queries < 1:
        raise ValueError(f"least_queries must be at least 1, not {least_queries}")
    if batch < 1:
        raise ValueError(f"batch must be at least 1, not {batch}")
    given = (rate is not None, bound is not None)
    if given != ((True, True) if scenario == SERVER else (False, False)):
        raise ValueError("rate and latency_bound must be given for server, and only there")
    for name, value in (("rate", rate), ("latency_bound", bound)):
        if value is not None and not 0 < value < math.inf:
            raise ValueError(f"{name} must be above 0 and finite, not {value}")
