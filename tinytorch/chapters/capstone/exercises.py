"""Checks for the exercises of the capstone: each passes or fails a reader's function, and says on what it failed."""

from collections.abc import Callable, Sequence

import numpy as np

from tinytorch.chapters.capstone.configuration import PLAIN, Configuration, held_bytes
from tinytorch.chapters.capstone.ladder import Rule
from tinytorch.chapters.capstone.workload import Workload, accuracy_change, in_turns
from tinytorch.chapters.checking import exercise_check, judged_faster, returned_number
from tinytorch.perf.measuring import blas_threads
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.profiling.breakdown import amdahl_of_parts

#: Bytes of weights and cache together that the last exercise allows for 32 questions.
BUDGET = 420_000
#: What is to be beaten under that budget: the ladder's last rung with all that it keeps made as small as it gets.
ALL_IN_CODES = Configuration("distilled", "8-bit weights", "8-bit", "token", kernels=True)
_SERVER = Workload(32)


@exercise_check
def check_predicted(function: Callable[[Sequence[float], Sequence[float]], float]) -> None:
    """Return "... passed" if ``function(seconds, ratios)`` is what Amdahl's law predicts for a whole of parts.

    The parts take ``seconds`` before, and ``ratios`` times that after; above 1 is faster.
    """
    draw = np.random.default_rng(0)
    for parts in (1, 2, 3, 5) * 5:
        seconds = [round(float(each), 5) for each in draw.uniform(1e-4, 1e-2, parts)]
        ratios = [round(float(each), 3) for each in draw.uniform(0.05, 2, parts)]
        truth, case = amdahl_of_parts(seconds, ratios), f"seconds {seconds}, ratios {ratios}"
        answer = returned_number(function(seconds, ratios), case)
        assert np.isclose(answer, truth, rtol=1e-6), f"{case}: the speedup is {truth:.4g}, not {answer:.4g}"


@exercise_check
def check_keep(function: Callable[[Interval, Interval, float, float], bool]) -> None:
    """Return "... passed" if ``function(gained, answers, matters, budget)`` says which steps the rule keeps.

    ``gained`` is the interval of the speedup, ``answers`` that of the change of the share of right answers. A step is
    kept if it is proven to be faster by more than ``matters``, and proven not to lose more than ``budget``.
    """
    draw = np.random.default_rng(0)
    for _ in range(80):
        low, loss = float(draw.uniform(0.9, 1.3)), float(draw.uniform(-0.025, 0.003))
        gained = Interval(low, low + float(draw.uniform(0, 0.3)), 0.95)
        answers = Interval(loss, loss + float(draw.uniform(0, 0.02)), 0.95)
        matters, budget = float(draw.uniform(0, 0.15)), float(draw.uniform(0.002, 0.02))
        truth = gained.low > 1 + matters and answers.low >= -budget
        answer = function(gained, answers, matters, budget)
        case = (
            f"speedup {gained.low:.3f} to {gained.high:.3f} with matters {matters:.3f}, answers {answers.low:+.4f} to "
            f"{answers.high:+.4f} with a budget of {budget:.4f}"
        )
        assert answer in (True, False), f"{case}: the answer must be True or False, not {answer!r}"
        assert bool(answer) == truth, f"{case}: the step is {'kept' if truth else 'dropped'}, not the other way round"


@exercise_check
def check_beat_capstone(function: Callable[[int], Configuration], rule: Rule) -> str:
    """Return "... passed" if ``function(budget)`` is a configuration that fits, sorts as well, and is proven faster.

    ``budget`` is what weights and cache may take together for 32 questions, in bytes. The answers must hold by the
    page's ``rule``, and a call must be faster than that of `ALL_IN_CODES`. On one core.
    """
    found = function(BUDGET)
    assert isinstance(found, Configuration), f"it must return a Configuration, not {found!r}"
    made = _SERVER.ready(found)
    held = held_bytes(made)
    assert held <= BUDGET, f"weights and cache take {held:,} bytes, more than the {BUDGET:,} that there are"
    change = accuracy_change(PLAIN, found, "change of right answers")
    lost, gained = (change.samples.count(sign) for sign in (-1.0, 1.0))
    assert rule.holds(change).verdict is Verdict.SUPPORTED, (
        f"of {change.n} answers it loses {lost} and gains {gained}: {-change.interval.low:.2%} may be lost, more than "
        f"the {rule.accuracy_budget:.0%} that are allowed"
    )
    assert found != ALL_IN_CODES, "this is the configuration that is to be beaten: choose another"
    with blas_threads(1):
        both = {"all in codes": _SERVER.ready(ALL_IN_CODES), "yours": made}
        times = in_turns(_SERVER, both, repeats=30, at_most_seconds=2.0)
    return judged_faster("beat_capstone", compare_paired(times["all in codes"], times["yours"], rule.matters))
