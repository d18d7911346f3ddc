"""Turns of groups: who is in one works, the others sleep; and what a stopwatch tells."""

from tests.perf.distributed.ranks import programs
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.distributed.ranks.turns import SAMPLE_SECONDS, measured_turns
from tinytorch.perf.measuring.conditions import Ranks


def test_only_who_is_in_a_turn_works_and_the_others_sleep() -> None:
    first, second = launch(programs.take_turns, 2, threads=1, pinned=True)
    assert first["present"] == [[2, 0], [1, 0], [2, 0]]
    assert second["present"] == [[2, 1], [2, 1]]
    assert first["slept"] == 0
    assert second["slept"] >= 0.2
    assert second["used"] < 0.2 * second["slept"]  # whoever waits in a call of MPI uses all that it gets
    told = first["told"]
    assert told["seconds"] == second["told"]["seconds"], "those of the slowest rank"
    assert told["loops"] * min(told["seconds"]) > SAMPLE_SECONDS / 4
    made = measured_turns("busy", 2, told, order_seed=3)
    assert made.samples == tuple(told["seconds"])
    assert made.minimum >= 1.9e-3, "the slower rank keeps its core busy for so long"
    assert (made.conditions.order_seed, made.conditions.inner_loops) == (3, told["loops"])
    assert isinstance(made.conditions.instrument, Ranks)
    assert made.conditions.instrument.oversubscribed == told["oversubscribed"]
