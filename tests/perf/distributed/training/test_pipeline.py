"""Pipelines against the whole model, and their schedules against what a schedule must keep to."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.perf.distributed.training.model_programs import pipelined
from tests.perf.distributed.training.training_programs import trained_alone
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.training.pipeline import Action, one_forward_one_backward


def test_two_stages_train_what_the_whole_model_trains() -> None:
    found = launch(pipelined, 2, threads=1)
    whole = trained_alone("gpt", "adamw", batch_size=8)
    assert found[0].keys() | found[1].keys() == whole.keys()
    for one in found:
        for name, array in one.items():
            np.testing.assert_allclose(array, whole[name], rtol=1e-9, atol=1e-11, err_msg=name)
    assert "token_embedding.weight" in found[0].keys() & found[1].keys(), "both ends hold the tied one"


def steps_of(stages: int, micro: int) -> int:
    """Return the steps that all stages take together if each action takes one, or fail if they wait for ever."""
    left = [one_forward_one_backward(stage, stages, micro) for stage in range(stages)]
    done: set[tuple[int, Action]] = set()
    steps = 0
    while any(left):
        ready = []
        for stage, (phase, number) in ((stage, actions[0]) for stage, actions in enumerate(left) if actions):
            neighbour = stage - 1 if phase == "forward" else stage + 1
            first = neighbour in (-1, stages)
            own = phase == "forward" or (stage, Action("forward", number)) in done
            if own and (first or (neighbour, Action(phase, number)) in done):
                ready.append(stage)
        assert ready, "every stage waits for another"
        done |= {(stage, left[stage].pop(0)) for stage in ready}
        steps += 1
    return steps


@given(st.integers(1, 6), st.integers(1, 12))
def test_the_schedule_does_everything_once_and_takes_the_time_of_the_formula(stages: int, micro: int) -> None:
    for stage in range(stages):
        actions = one_forward_one_backward(stage, stages, micro)
        assert sorted(actions) == sorted(Action(phase, m) for phase in ("forward", "backward") for m in range(micro))
        held = [1 if action.phase == "forward" else -1 for action in actions]
        assert max(itertools.accumulate(held)) == min(stages - stage, micro)
    # Source: Narayanan et al. 2021, section 2.2: the bubble is (stages - 1) forwards and backwards.
    assert steps_of(stages, micro) == 2 * (micro + stages - 1)


def test_what_is_out_of_range_is_refused() -> None:
    with pytest.raises(ValueError, match="stage"):
        one_forward_one_backward(2, 2, 1)
    with pytest.raises(ValueError, match="micro"):
        one_forward_one_backward(0, 2, 0)
