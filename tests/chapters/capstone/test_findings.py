"""What the capstone finds in ladders that differ: with pairs, without, and with nothing that passes."""

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from tests.chapters.capstone.made_trials import CACHE, KERNELS, RULE, SMALL, in_turns, made_ladder, made_seconds
from tinytorch.chapters.capstone import findings
from tinytorch.chapters.capstone.configuration import GOOD_BASELINE
from tinytorch.chapters.capstone.ladder import Ladder
from tinytorch.perf.benchmarking import Performance
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.judge import Verdict

_WITH_PAIRS = made_ladder()
_TWO_STEPS = made_ladder(steps=(KERNELS, SMALL))
_QUIET: Any = SimpleNamespace(cores=lambda: 0.0)


def test_a_pair_stands_beside_what_its_first_step_brought_alone() -> None:
    (found,) = cast(Any, findings.pairs_taken([_WITH_PAIRS]))
    assert (found["taken"].name, found["alone"].name) == ("key-value cache + one op a token", "key-value cache")
    assert found["alone"].gained.estimate.median == pytest.approx(1 / 1.25, rel=0.01)
    assert isinstance(findings.pairs_taken([_TWO_STEPS]), Unmeasured)


def anew(ladder: Ladder, faster: float = 1.0, smaller: float = 1.0) -> dict[str, Performance]:
    """Return the rungs measured once more: each ``faster`` and ``smaller`` by a factor than when it was taken."""
    every = {**ladder.rungs, "NumPy with a cache": GOOD_BASELINE}
    seconds = {name: made_seconds(one) / faster**at for at, (name, one) in enumerate(every.items())}
    right = np.repeat([True, False], [1980, 20])
    found = {}
    for at, (name, time) in enumerate(in_turns(seconds).items()):
        memory = Measurement("peak", (1e6 / smaller**at,), "B")
        found[name] = Performance(name, "a task", {1: (time,)}, {1: memory}, 1000, right, "a run")
    return found


@pytest.mark.parametrize(("faster", "verdict"), [(1.0, Verdict.REFUTED), (4.0, Verdict.SUPPORTED)])
def test_the_last_rung_is_held_against_the_start_and_the_honest_baseline(faster: float, verdict: Verdict) -> None:
    rungs = findings.rungs(_TWO_STEPS, anew(_TWO_STEPS, faster), RULE)
    assert rungs["compiled kernels"]["gained"].median == pytest.approx(2 * faster, rel=0.01)
    assert (rungs["plain"]["gained"], rungs["NumPy with a cache"]["gained"]) == (None, None)
    end = findings.end(_TWO_STEPS, rungs, RULE)
    assert end["gain"].median == pytest.approx(2.5 * faster**2, rel=0.01)
    assert findings.any_gains([end], times=10).verdict is verdict


def test_where_no_step_passes_the_end_is_the_start() -> None:
    nothing = made_ladder(steps=(CACHE,))
    end = findings.end(nothing, findings.rungs(nothing, anew(nothing), RULE), RULE)
    assert (end["gain"].median, end["saved"].median) == (1, 1)


def test_fewer_lost_answers_fit_where_the_budget_is_smaller() -> None:
    # Of 2,000, twenty are one in a hundred: with an interval around them fewer pass.
    assert findings.most_lost(2000, 0.005).value < findings.most_lost(2000, 0.01).value < 20
