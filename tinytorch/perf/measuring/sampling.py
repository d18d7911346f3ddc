"""Sampling of times: warm-up, calibrated inner loops, functions in turns, under set conditions."""

from __future__ import annotations

import gc
import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tinytorch.core.contexts import checked_prompt, contextmanager
from tinytorch.perf.host.blas import ThreadSwitch, current_blas_threads
from tinytorch.perf.host.memory_pages import minor_page_faults
from tinytorch.perf.measuring.between_run_variance import sample_spread, spread_sample_is_due, with_between_run_spread
from tinytorch.perf.measuring.conditions import Caches, Conditions, Planned, new_turns
from tinytorch.perf.measuring.measurement import Measurement, ratio
from tinytorch.perf.measuring.planning import FEWEST_PAIRS, PILOT, carried_out, planned, seconds_allowed
from tinytorch.perf.measuring.statistics import FEWEST_FOR_INTERVAL

_collector_lock = threading.Lock()
#: How many bodies want the collector off, on whatever threads, and whether it was on before the first of them.
_collector_off = 0
_collector_was_on = False


@contextmanager
def collector_off() -> Iterator[None]:
    """Turn the garbage collector off, and back to what it was at exit, also after an error.

    Garbage that is young goes before, so that none piles up. To look for old garbage, too, takes longer than many a
    measurement where a page holds much.

    Examples:
        >>> import gc
        >>> from tinytorch.perf.measuring import collector_off
        >>> with collector_off():
        ...     gc.isenabled()
        False
    """
    global _collector_off, _collector_was_on
    gc.collect(1)
    with _collector_lock:
        if not _collector_off:
            _collector_was_on = gc.isenabled()
        _collector_off += 1
        gc.disable()
    try:
        yield
    finally:
        with _collector_lock:
            _collector_off -= 1
            if not _collector_off and _collector_was_on:
                gc.enable()


@contextmanager
def blas_threads(count: int) -> Iterator[None]:
    """Run the body with ``count`` threads for BLAS, as far as it can be limited, and for the compiled kernels.

    Raises:
        ValueError: if ``count`` is below 1.

    Examples:
        >>> from tinytorch.perf.measuring import blas_threads, current_blas_threads
        >>> with blas_threads(1):
        ...     current_blas_threads()
        1
    """
    give_back = ThreadSwitch().set(count)
    try:
        yield
    finally:
        give_back()


def limit_blas_threads(count: int) -> None:
    """Give BLAS and the compiled kernels ``count`` threads for the rest of the process, as a page's first cell does.

    Raises:
        ValueError: if ``count`` is below 1.
    """
    ThreadSwitch().set(count)


#: One sample lasts at least this many resolutions of the clock, so that reading it errs by under 0.1 %.
RESOLUTIONS_PER_SAMPLE = 1000
#: ... and at least this long in seconds, because the timer's own call costs about 0.1 microseconds.
MINIMUM_SAMPLE_SECONDS = 250e-6
#: Warm-up ends when this many runs in a row bring no new minimum by more than 2 %.
STEADY_RUNS = 3
#: Samples are taken in this many blocks; what is allocated in each lies elsewhere.
BLOCKS = 6
#: A call longer than this, in seconds, is not run once more for each block: what is new to it is little of its time.
_LONG = 10e-3
#: Arrays that are held while a block is taken, and the logs, base 2, of their least and greatest bytes.
_HELD, _LEAST_HELD, _MOST_HELD = 8, 8, 22
Context = Callable[[], AbstractContextManager[Any]]
#: Functions by name, or what makes them.
Functions = Mapping[str, Callable[[], Any]] | Callable[[], Mapping[str, Callable[[], Any]]]
#: By name, what functions run in.
Within = Mapping[str, Context]


def clock_resolution() -> float:
    """Return the smallest observed step between two different readings of the clock, in seconds.

    Examples:
        >>> from tinytorch.perf.measuring import clock_resolution
        >>> 0 < clock_resolution() < 1e-3
        True
    """
    smallest = math.inf
    for _ in range(200):
        first = time.perf_counter_ns()
        second = time.perf_counter_ns()
        while second == first:
            second = time.perf_counter_ns()
        smallest = min(smallest, second - first)
    return smallest * 1e-9


_RESOLUTION = clock_resolution()


def _timed(function: Callable[[], Any], loops: int) -> float:
    """Return the seconds of one call, from ``loops`` calls in a row."""
    repeat = range(loops)
    start = time.perf_counter_ns()
    for _ in repeat:
        function()
    return (time.perf_counter_ns() - start) * 1e-9 / loops


@dataclass(frozen=True, slots=True)
class _WarmUp:
    """Record of a warm-up: its runs, its seconds, the fastest run's, and whether it ended because it was steady."""

    runs: int
    seconds: float
    fastest: float
    steady: bool


def _warmed_up(function: Callable[[], Any], at_most_seconds: float) -> _WarmUp:
    """Run until no longer getting faster, or until the time is over: then twice at least, the first time cold."""
    fastest, since, runs = math.inf, 0, 0
    start = time.perf_counter()
    while since < STEADY_RUNS:
        seconds = _timed(function, 1)
        runs += 1
        since = 0 if seconds < 0.98 * fastest else since + 1
        fastest = min(fastest, seconds)
        if time.perf_counter() - start > at_most_seconds and runs >= 2:
            break
    return _WarmUp(runs, time.perf_counter() - start, fastest, since >= STEADY_RUNS)


def _calibrated(function: Callable[[], Any], seconds: float) -> int:
    """Return how many calls make one sample long enough for the clock, given the ``seconds`` of a single one."""
    target = max(MINIMUM_SAMPLE_SECONDS, RESOLUTIONS_PER_SAMPLE * _RESOLUTION)
    loops = max(1, math.ceil(target / max(seconds, 1e-9)))
    if loops == 1:
        return 1
    # A single call's time holds the timer's own cost, many calls hardly do: look again.
    return max(1, math.ceil(target / max(_timed(function, loops), 1e-9)))


class _Sampler:
    """A function that is warm and whose inner loop is known, its samples, and what the process spent on them."""

    within: Context = nullcontext

    def __init__(self, function: Callable[[], Any], warmup: _WarmUp, loops: int) -> None:
        self.function, self.warmup, self.loops = function, warmup, loops
        self.forget()

    def forget(self) -> None:
        """Begin anew, with no samples."""
        self.seconds: list[float] = []
        self.cpu_ns = 0
        self.faults = 0

    def take(self) -> None:
        """Take one sample; CPU time and page faults are read outside of the wall time's readings."""
        with self.within():
            faults, cpu = minor_page_faults(), time.process_time_ns()
            self.seconds.append(_timed(self.function, self.loops))
            self.cpu_ns += time.process_time_ns() - cpu
            self.faults += minor_page_faults() - faults

    def settle(self) -> None:
        """Run the function once, off the clock, unless that takes long: what it needs is then in the caches."""
        if self.warmup.fastest <= _LONG:
            with self.within():
                self.function()

    def measurement(self, name: str, block: int, others: tuple[str, ...] = (), seed: int | None = None) -> Measurement:
        """Return the samples, of which ``block`` in a row were taken in one place, with their conditions."""
        conditions = Conditions(
            warmup_runs=self.warmup.runs,
            warmup_seconds=float(f"{self.warmup.seconds:.3g}"),
            warmup_steady=self.warmup.steady,
            inner_loops=self.loops,
            collector_off=True,
            blas_threads=current_blas_threads() or "unknown",
            cpu_per_wall=float(f"{self.cpu_ns * 1e-9 / (sum(self.seconds) * self.loops):.3g}"),
            page_faults_per_call=float(f"{self.faults / (len(self.seconds) * self.loops):.3g}"),
            caches=Caches.WARM if self.warmup.runs else Caches.AS_FOUND,
            interleaved_with=others,
            order_seed=seed,
        )
        return with_between_run_spread(Measurement(name, tuple(self.seconds), "s", conditions), block)


class LayoutRandomizer:
    """Perturbs heap layout between blocks: arrays of random sizes that are held for a while.

    Where operands and temporaries lie is drawn once in a process and kept by the allocator, and differs from process
    to process; a measurement that moves them shows it.
    Source: C. Curtsinger and E. D. Berger, Stabilizer: statistically sound performance evaluation, ASPLOS 2013.
    """

    def __init__(self, draw: np.random.Generator) -> None:
        self._draw = draw
        self._held: list[Any] = []

    def move(self) -> None:
        """Hold other arrays than before, with holes between them."""
        self._held = []
        bits = self._draw.uniform(_LEAST_HELD, _MOST_HELD, 2 * _HELD)
        self._held = [np.empty(int(2**size), np.uint8) for size in bits][::2]


class _Turns:
    """Functions that are sampled in turns: each round in another order, each block of rounds in other places."""

    def __init__(self, functions: Functions, warmup_seconds: float, seed: int, within: Within, settle: bool):
        self._remake = functions if callable(functions) else None
        self._made = functions() if callable(functions) else functions
        if not self._made:
            raise ValueError("functions must name at least one function to time")
        self._samplers: dict[str, _Sampler] = {}
        for name, function in self._made.items():
            checked_prompt(function, "measure")
            with (context := within.get(name, nullcontext))():
                warmup = _warmed_up(function, seconds_allowed(warmup_seconds))
                self._samplers[name] = _Sampler(function, warmup, _calibrated(function, warmup.fastest))
            self._samplers[name].within = context
        self._seed, self._draw = seed, np.random.default_rng(seed)
        self._layout = LayoutRandomizer(self._draw)
        self._are_new = True
        self._settles = settle
        self._block = 0

    def take(self, rounds: int, at_most_seconds: float) -> int:
        """Take so many rounds in place of what was taken, fewer if the time is over; return how many."""
        turns = list(self._samplers.values())
        for sampler in turns:
            sampler.forget()
        self._block = rounds_in_block(rounds)
        deadline = time.perf_counter() + seconds_allowed(at_most_seconds)
        for done in range(rounds):
            if done >= FEWEST_FOR_INTERVAL and time.perf_counter() > deadline:
                return done
            if done % self._block == 0:
                self._move()
            for index in self._draw.permutation(len(turns)):
                if self._settles:
                    turns[index].settle()
                turns[index].take()
        return rounds

    def _move(self) -> None:
        """Go on in other places, with operands that are made there if the caller told how."""
        self._layout.move()
        if self._remake is not None and not self._are_new:
            self._made = self._remake()
            if self._made.keys() != self._samplers.keys():
                raise ValueError(
                    f"functions must name the same functions each time, not first {list(self._samplers)} and then "
                    f"{list(self._made)}"
                )
        self._are_new = False
        for name, sampler in self._samplers.items():
            sampler.function = self._made[name]
        for sampler in self._samplers.values():  # when nothing holds the operands of before any more
            sampler.settle()

    def take_planned(self, resolve: float, at_most_seconds: float) -> Planned:
        """Take as many rounds as resolve that difference, as a pilot tells, fewer if the time is over."""
        start = time.perf_counter()
        piloted = self.take(PILOT, at_most_seconds / 3)
        plan = planned(self._ratios(), resolve, FEWEST_PAIRS)
        spent = time.perf_counter() - start
        left = max(0.0, at_most_seconds - spent)
        self.take(min(plan.number, max(FEWEST_FOR_INTERVAL, int(left / spent * piloted))), left)
        return carried_out(plan, self._ratios())

    def _ratios(self) -> list[Measurement]:
        first, *others = self.measurements().values()
        return [ratio(first, other) for other in others]

    def measurements(self, plan: Planned | None = None) -> dict[str, Measurement]:
        """Return what was taken of each function, and by which plan."""
        found, seed = {}, self._seed if len(self._samplers) > 1 else None
        turns = new_turns() if len(self._samplers) > 1 else None
        for name, sampler in self._samplers.items():
            others = tuple(other for other in self._samplers if other != name)
            made = sampler.measurement(name, self._block, others, seed)
            found[name] = replace(made, conditions=replace(made.conditions, planned=plan, turns=turns))
        return found


def measure(
    function: Callable[..., Any],
    name: str,
    *,
    repeats: int = 30,
    at_most_seconds: float = 10.0,
    warmup_seconds: float = 1.0,
) -> Measurement:
    """Return the wall time of one call of ``function``, in seconds, with ``repeats`` samples.

    It warms up until steady, sets the inner loop so that one sample is long beside the clock's resolution,
    and turns the garbage collector off. Sampling stops early, never below six samples (the fewest that give
    a 95 % interval), when ``at_most_seconds`` have passed; ``n`` of the result says how many there are.

    Its conditions say how long the warm-up took and whether it ended steady, the CPU time of the whole process over
    wall time (above 1 with threads, below 1 where it waited or was interrupted) and the page faults of a call.

    Args:
        function: what to time; called without arguments.
        name: what it is, in words.
        repeats: samples.
        at_most_seconds: time limit for all samples.
        warmup_seconds: for the warm-up.

    Raises:
        ValueError: if ``repeats`` is below 1, ``at_most_seconds`` not above 0.

    Examples:
        >>> from tinytorch.perf.measuring import measure
        >>> time = measure(lambda: sum(range(100)), "a sum", repeats=6, warmup_seconds=0.01)
        >>> time.n, time.unit
        (6, 's')
        >>> time.interval.low <= time.median <= time.interval.high
        True
    """
    return interleave(
        {name: function}, repeats=repeats, at_most_seconds=at_most_seconds, warmup_seconds=warmup_seconds
    )[name]


def rounds_in_block(repeats: int) -> int:
    """Return how many samples in a row are taken in one place, of ``repeats``."""
    return max(1, -(-repeats // BLOCKS))


def interleave(
    functions: Functions,
    *,
    repeats: int | None = None,
    resolve: float | None = None,
    at_most_seconds: float = 30.0,
    warmup_seconds: float = 1.0,
    seed: int = 0,
    within: Within | None = None,
    settle: bool = False,
) -> dict[str, Measurement]:
    """Return the wall time of each function, in seconds, interleaved so that drift affects all alike.

    Every round samples each function once, in an order drawn anew from ``seed``; the i-th samples of all results are
    neighbours in time, so `ratio` and the comparisons pair them. The random order makes the noise of a pair as likely
    to favour one function as the other, whatever it does over time. Rounds are taken in six blocks, and what is
    allocated in each lies elsewhere, for a call's time depends on where its data lie.
    Arguments and errors are those of `measure`; ``within`` makes, by name, what a function runs in, off the clock.

    Args:
        functions: by name; or what makes them, called before each block, so that operands lie elsewhere, too.
        repeats: rounds; 30 if neither this nor ``resolve`` is given.
        resolve: the relative difference between the first function and the others that matters, such as 0.03, in
            place of ``repeats``: a pilot of 12 rounds, which are not in the result, tells how many rounds find it, and
            the conditions of each result say what was reached. ``at_most_seconds`` are
            for both.
        settle: whether each sample comes after one call off the clock, unless that takes long: so the caches hold what
            a function needs, where others of these functions drive it out.

    Raises:
        ValueError: also if ``functions`` is empty, ``repeats`` and ``resolve`` are both given, or nothing can differ.

    Examples:
        >>> from tinytorch.perf.measuring import interleave
        >>> calls = {"short": lambda: sum(range(10)), "long": lambda: sum(range(1000))}
        >>> times = interleave(calls, repeats=6, warmup_seconds=0.01)
        >>> list(times), times["long"].n
        (['short', 'long'], 6)
    """
    if repeats is not None and resolve is not None:
        raise ValueError("repeats or resolve must be given, not both: a plan says how many rounds it takes")
    rounds = 30 if repeats is None else repeats
    if rounds < 1:
        raise ValueError(f"repeats must be at least 1, not {rounds}")
    if not at_most_seconds > 0:
        raise ValueError(f"at_most_seconds must be above 0, not {at_most_seconds}")
    if resolve is not None and not 0 < resolve < math.inf:
        raise ValueError(f"resolve must be above 0, such as 0.03 for a difference of three per cent, not {resolve}")
    if spread_sample_is_due():
        sample_spread()
    with collector_off():
        turns = _Turns(functions, warmup_seconds, seed, within or {}, settle)
        if resolve is not None:
            return turns.measurements(turns.take_planned(resolve, at_most_seconds))
        turns.take(rounds, at_most_seconds)
        return turns.measurements()


def sample(function: Callable[[], Any], name: str, *, warmup: int, runs: int) -> Measurement:
    """Return the wall time of one call of ``function``, in seconds: exactly ``runs`` samples after ``warmup`` calls.

    Unlike `measure` it takes the plan as given. The warm-up also sets the inner loop (how many calls make one
    sample); without one each sample is a single call, so that cold runs can be looked at.

    Raises:
        ValueError: if ``warmup`` is below 0 or ``runs`` below 1.

    Examples:
        >>> from tinytorch.perf.measuring import sample
        >>> found = sample(lambda: sum(range(1000)), "a sum", warmup=3, runs=7)
        >>> found.n, found.unit, found.median > 0
        (7, 's', True)
    """
    if warmup < 0:
        raise ValueError(f"warmup must be at least 0, not {warmup}")
    if runs < 1:
        raise ValueError(f"runs must be at least 1, not {runs}")
    checked_prompt(function, "sample")
    with collector_off():
        times = [_timed(function, 1) for _ in range(warmup)]
        fastest = min(times, default=math.inf)
        steady = warmup > STEADY_RUNS and min(times[-STEADY_RUNS:]) >= 0.98 * min(times[:-STEADY_RUNS])
        spent = _WarmUp(warmup, sum(times), fastest, steady)
        sampler = _Sampler(function, spent, _calibrated(function, fastest))
        for _ in range(runs):
            sampler.take()
    return sampler.measurement(name, runs)
