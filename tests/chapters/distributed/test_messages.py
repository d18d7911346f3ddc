"""Messages of made times and all-reduces by formulas: groups of processes, ratios, growth, and one core."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.perf.distributed.collectives.made_times import ALPHA, BETA, SIZES, made_times
from tinytorch.chapters.distributed import messages
from tinytorch.perf.distributed import given_link
from tinytorch.perf.distributed.collectives.measured import Collectives
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.conditions import Conditions, Ranks

ROUNDS, GROUPS = 6, 8


def made_collectives(oversubscribed: bool = False) -> Collectives:
    """Return times of eight groups of processes, each slower than the one before; an all-reduce takes twice as long."""
    times: dict[Any, dict[int, Measurement]] = {}
    names = tuple(f"{kind} of {size} B" for kind in ("point to point", "all-reduce") for size in SIZES)
    conditions = Conditions(
        instrument=Ranks(ranks=2, oversubscribed=oversubscribed), interleaved_with=names, block=ROUNDS
    )
    placed = np.repeat(np.linspace(1, 2, GROUPS), ROUNDS)
    for seed, (kind, factor) in enumerate({"point to point": 1.0, "all-reduce": 2.0}.items()):
        times[kind] = {
            size: Measurement(f"{kind} of {size} B", tuple((factor * placed * one.samples).tolist()), "s", conditions)
            for size, one in made_times(0.01, seed=seed, rounds=GROUPS * ROUNDS).items()
        }
    return Collectives(2, 1, "MPI", oversubscribed, times, Measurement("barrier", (1e-6,) * 15, "s"))


def test_a_figure_has_a_line_without_intervals_for_each_group_of_processes() -> None:
    figure = messages.samples_figure(made_collectives(), xlabel="message (bytes)", ylabel="time")
    [ax] = figure.axes
    assert len(ax.lines) == 2 * GROUPS
    assert len(ax.get_legend_handles_labels()[1]) == 2
    first, last = (np.asarray(ax.lines[at].get_ydata())[0] for at in (0, GROUPS - 1))
    assert last == pytest.approx(2 * first, rel=0.05)


def test_a_place_that_hits_two_messages_alike_is_not_in_their_ratio() -> None:
    found = messages.over(made_collectives(), ("all-reduce", SIZES[0]), ("point to point", SIZES[0]), "over a message")
    assert not isinstance(found, Unmeasured)
    assert found.n == GROUPS
    assert found.interval.low > 1.9
    assert found.interval.high < 2.1


def test_bandwidth_grows_by_bytes_over_times() -> None:
    found = messages.growth(made_collectives())
    assert not isinstance(found, Unmeasured)
    more = SIZES[-1] / SIZES[0]
    assert found.median == pytest.approx(more * (ALPHA + BETA * SIZES[0]) / (ALPHA + BETA * SIZES[-1]), rel=0.02)


@pytest.mark.parametrize(
    "ask", [messages.growth, lambda talk: messages.over(talk, ("all-reduce", 8), ("point to point", 8), "a ratio")]
)
def test_one_core_compares_nothing(ask: Callable[[Collectives], Measurement | Unmeasured]) -> None:
    assert isinstance(ask(made_collectives(oversubscribed=True)), Unmeasured)


def test_a_ring_grows_by_steps_where_arrays_are_small_and_hardly_where_they_are_large() -> None:
    rings = messages.ring_costs((2, 8, 4096), 8, 2**30, given_link(5e-6, 12.5e9))
    assert [one["sent"].value for one in rings] == pytest.approx([1.0, 1.75, 2 * 4095 / 4096])
    assert rings[-1]["small_growth"].value == pytest.approx(4095, rel=0.01)
    assert rings[-1]["tree"].value == pytest.approx(2 * 12 * 5e-6, rel=0.01)
    assert 2 < rings[-1]["large_growth"].value < 3
