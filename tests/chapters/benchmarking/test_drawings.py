"""What the drawings of the page on benchmarking are drawn from is what the page derives."""

from __future__ import annotations

import re

import pytest
from scipy.stats import binom

from tinytorch.chapters.benchmarking import drawings


@pytest.mark.parametrize(("outside", "samples"), [(3, 15), (4, 15), (0, 6), (0, 5), (1, 15)])
def test_what_a_pair_of_samples_misses_is_two_tails_of_the_binomial_distribution(outside: int, samples: int) -> None:
    assert drawings.missed(outside, samples) == pytest.approx(2 * binom.cdf(outside, samples, 0.5))


def test_in_turns_two_copies_meet_the_same_drift_and_one_after_the_other_they_do_not() -> None:
    assert drawings.level("ABBAABBA", "A") == drawings.level("ABBAABBA", "B")
    # Half of eight runs later, by eight units each.
    assert drawings.level("AAAABBBB", "B") - drawings.level("AAAABBBB", "A") == 32
    svg = drawings.turns().svg(key="turns", alt="made")
    assert svg.index("means differ") < svg.index("means agree")


def test_the_tails_of_fifteen_samples_are_told() -> None:
    svg = drawings.order_statistics(3).svg(key="order", alt="made")
    assert len(re.findall("1.8 %", svg)) == 2


def test_the_method_names_its_three_steps_in_order() -> None:
    svg = drawings.method().svg(key="method", alt="made")
    assert svg.index("measure") < svg.index("transform") < svg.index("validate")


def test_requests_wait_for_those_before_them() -> None:
    # The second arrives before the first is answered, the third after the second is.
    assert drawings.begun([1.0, 2.0, 9.0], 3.0) == [1.0, 4.0, 9.0]
    svg = drawings.queue().svg(key="queue", alt="made")
    assert svg.count("stroke-dasharray") == 4
