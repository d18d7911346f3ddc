"""Weights of looks: a thread that ran for some time by the system's clock has as much in the looks at it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.perf.events.stack_samples import Look, weighed


def looks(stacks: str) -> list[Look]:
    """Return a look a millisecond, of stack 1 where a thread ran and of stack 0 where it waited."""
    return [Look(at * 1_000_000, (at + 1) * 1_000_000, int(one), 1_000_000) for at, one in enumerate(stacks)]


def clocks(stacks: str, share: float) -> list[tuple[int, int]]:
    """Return what the system's clock said at each look: in all the thread ran for this share of the time."""
    return [(int(one), round(share * at * 1_000_000)) for at, one in enumerate(stacks)]


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_looks_that_came_while_a_thread_waited_stand_for_as_long_as_it_did(share: float) -> None:
    stacks = "0001" * 25  # seen running in a quarter of the looks
    made = weighed(looks(stacks), clocks(stacks, share))
    ran, waited = (sum(look.weight for look in made if look.stack == stack) for stack in (1, 0))
    assert ran / (ran + waited) == pytest.approx(share, abs=0.01)
    assert ran + waited == pytest.approx(100_000_000)


@pytest.mark.parametrize("stacks", ["0" * 50, "1" * 50, "01" * 5])
def test_looks_of_one_kind_and_few_looks_keep_their_time(stacks: str) -> None:
    assert weighed(looks(stacks), clocks(stacks, 0.5)) == looks(stacks)


def test_without_the_systems_clock_looks_keep_their_time() -> None:
    stacks = "01" * 50
    assert weighed(looks(stacks), [(-1, 0)] * 100) == looks(stacks)


@given(st.text(alphabet="01", min_size=1, max_size=300), st.floats(0, 1))
def test_weights_sum_to_the_time_in_which_it_was_looked_at(stacks: str, share: float) -> None:
    made = weighed(looks(stacks), clocks(stacks, share))
    assert sum(look.weight for look in made) == pytest.approx(len(stacks) * 1_000_000, rel=1e-3)
    assert [look.stack for look in made] == [int(one) for one in stacks]
