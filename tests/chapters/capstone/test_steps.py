"""Steps: whatever is taken can run, no step is taken back, and a pair holds what a single step cannot."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tinytorch.chapters.capstone.configuration import PLAIN, Configuration
from tinytorch.chapters.capstone.steps import STEPS, double_moves, name_of, single_moves, step_named


@given(st.data())
def test_any_walk_ends_and_visits_no_configuration_twice(data: st.DataObject) -> None:
    now, seen = PLAIN, {PLAIN}
    while moves := single_moves(now):
        now = data.draw(st.sampled_from(list(moves.values())))
        assert now not in seen
        seen.add(now)
    assert len(seen) < 12


@given(st.data())
def test_a_pair_is_two_steps_of_which_the_second_needs_the_first(data: st.DataObject) -> None:
    now = PLAIN
    for _ in range(data.draw(st.integers(0, 4))):
        moves = single_moves(now)
        now = data.draw(st.sampled_from(list(moves.values()))) if moves else now
    for (first, second), after in double_moves(now).items():
        assert second.after(now) is None
        between = first.after(now)
        assert between is not None
        assert second.after(between) == after
        assert first.field != second.field


def test_one_op_a_token_needs_a_cache_and_kernels() -> None:
    token = step_named("one op a token")
    assert token.after(PLAIN) is None
    assert token.after(Configuration(cache="float32")) is None
    assert token.after(Configuration(cache="float32", kernels=True)) == Configuration(
        cache="float32", kernels=True, fusion="token"
    )
    names = {name_of(move) for move in double_moves(Configuration(kernels=True))}
    assert "key-value cache + one op a token" in names


def test_nothing_replaces_the_distilled_model_and_no_name_comes_twice() -> None:
    taken = {step.name for (step,) in single_moves(Configuration(model="distilled"))}
    assert taken.isdisjoint({"half of the units", "low rank", "sparse weights", "distilled model"})
    assert len({step.name for step in STEPS}) == len(STEPS)
    with pytest.raises(ValueError, match="name must be one of key-value cache"):
        step_named("overclocking")
