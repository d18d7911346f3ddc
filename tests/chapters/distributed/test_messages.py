"""Messages of made times and all-reduces by formulas: lines, spread, growth, and what one core leaves."""

from typing import Any

import pytest

from tests.perf.distributed.collectives.made_times import ALPHA, BETA, SIZES, made_times
from tests.perf.synthetic_machine import synthetic_ceilings
from tinytorch.chapters.distributed import messages
from tinytorch.chapters.distributed.messages import link_rows, message_rows, size_words
from tinytorch.perf.distributed import given_link
from tinytorch.perf.distributed.collectives.measured import Collectives
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.conditions import Conditions, Ranks


@pytest.fixture(autouse=True)
def _no_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(messages, "ceilings", lambda threads: synthetic_ceilings(threads))


def made_collectives(oversubscribed: bool = False) -> Collectives:
    """Return the page's kinds, the ring ten times as slow as the library."""
    times: dict[Any, dict[int, Measurement]] = {}
    factors = {"point to point": 1.0, "all-reduce": 2.0, "ring all-reduce": 20.0}
    names = tuple(f"{kind} of {size} B" for kind in factors for size in SIZES)
    conditions = Conditions(instrument=Ranks(ranks=2, oversubscribed=oversubscribed), interleaved_with=names)
    for seed, (kind, factor) in enumerate(factors.items()):
        times[kind] = {
            size: Measurement(f"{kind} of {size} B", tuple(factor * sample for sample in one.samples), "s", conditions)
            for size, one in made_times(0.01, seed=seed, rounds=30).items()
        }
    return Collectives(2, 1, "MPI", oversubscribed, times, Measurement("barrier", (1e-6,) * 15, "s"))


def test_a_table_of_links_says_what_was_fitted_and_how_far_it_is_off() -> None:
    rows = link_rows(made_collectives())
    assert not isinstance(rows, Unmeasured)
    first = rows[0]
    assert (first["smallest"], rows[-1]["largest"]) == ("8 B", "2 MiB")
    assert first["alpha"].median == pytest.approx(ALPHA, rel=0.05)
    assert first["bandwidth"].median == pytest.approx(1 / BETA, rel=0.05)
    assert 0 < first["worst"].value < 0.05


def test_bandwidth_grows_by_bytes_over_times() -> None:
    found = messages.all_reduces(made_collectives())
    assert found.more.value == SIZES[-1] / SIZES[0]
    assert not isinstance(found.grown, Unmeasured)
    expected = (ALPHA + BETA * SIZES[0]) / (ALPHA + BETA * SIZES[-1]) * found.more.value
    assert found.grown.median == pytest.approx(expected, rel=0.02)
    peak = synthetic_ceilings(1).fp32_peak.median
    assert found.flops.median == pytest.approx(found.smallest.median * peak)


def test_messages_have_their_time_and_their_bandwidth() -> None:
    talk = made_collectives()
    rows = message_rows(talk)
    assert not isinstance(rows, Unmeasured)
    assert (rows[0]["size"], rows[-1]["size"]) == (size_words(SIZES[0]), size_words(SIZES[-1]))
    assert rows[-1]["time"] is talk.of("point to point")[SIZES[-1]]
    assert rows[-1]["bandwidth"].median == pytest.approx(SIZES[-1] / (ALPHA + SIZES[-1] * BETA), rel=0.02)


def test_a_ring_grows_by_steps_where_arrays_are_small_and_hardly_where_they_are_large() -> None:
    rings = messages.ring_costs((2, 8, 4096), 8, 2**30, given_link(5e-6, 12.5e9))
    assert [one.sent.value for one in rings] == pytest.approx([1.0, 1.75, 2 * 4095 / 4096])
    assert (rings[0].small_growth.value, rings[0].large_growth.value) == (1, 1)
    assert rings[-1].small_growth.value == pytest.approx(4095, rel=0.01)
    assert rings[-1].tree.value == pytest.approx(2 * 12 * 5e-6, rel=0.01)
    assert 2 < rings[-1].large_growth.value < 3


def test_one_core_compares_nothing() -> None:
    alone = made_collectives(oversubscribed=True)
    assert isinstance(link_rows(alone), Unmeasured)
    assert isinstance(message_rows(alone), Unmeasured)
    assert isinstance(messages.all_reduces(alone).grown, Unmeasured)
    assert messages.all_reduces(alone).flops.median > 0
