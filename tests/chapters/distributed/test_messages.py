"""Messages and the ring of made times: lines, formulas beside measurements, and what one core leaves."""

from __future__ import annotations

from typing import Any

import pytest

from tests.perf.distributed.collectives.made_times import ALPHA, BETA, SIZES, made_times
from tests.perf.synthetic_machine import synthetic_ceilings
from tinytorch.chapters.distributed import messages
from tinytorch.chapters.distributed.messages import link_rows, predicted_ring, ring_rows, size_words
from tinytorch.perf.distributed import given_link, ring_cost
from tinytorch.perf.distributed.collectives.link_fit import fit
from tinytorch.perf.distributed.collectives.measured import Collectives
from tinytorch.perf.measuring import Measurement, Unmeasured
from tinytorch.perf.measuring.comparison import Comparison
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
            for size, one in made_times(0.01, seed=seed).items()
        }
    return Collectives(2, 1, "MPI", oversubscribed, times, Measurement("barrier", (1e-6,) * 15, "s"))


def test_a_table_of_links_says_what_was_fitted_and_how_far_it_is_off() -> None:
    rows = link_rows(made_collectives())
    assert not isinstance(rows, Unmeasured)
    first = rows[0]
    assert (first.smallest, rows[-1].largest) == ("8 B", "2 MiB")
    assert first.alpha.median == pytest.approx(ALPHA, rel=0.05)
    assert first.bandwidth is not None
    assert first.bandwidth.median == pytest.approx(1 / BETA, rel=0.05)
    assert 0 < first.worst.value < 0.05


def test_bandwidth_grows_by_bytes_over_times() -> None:
    found = messages.all_reduces(made_collectives())
    assert found.more.value == SIZES[-1] / SIZES[0]
    assert not isinstance(found.grown, Unmeasured)
    expected = (ALPHA + BETA * SIZES[0]) / (ALPHA + BETA * SIZES[-1]) * found.more.value
    assert found.grown.median == pytest.approx(expected, rel=0.02)
    peak = synthetic_ceilings(1).fp32_peak.median
    assert found.flops.median == pytest.approx(found.smallest.median * peak)


def test_the_ring_is_predicted_by_the_line_that_holds_for_its_parts() -> None:
    slow = {size: one.scaled(10) for size, one in made_times(0.0, sizes=[2**power for power in range(3, 10)]).items()}
    links = (fit(slow), fit(made_times(0.0, sizes=[2**power for power in range(10, 22)])))
    for nbytes, ranks, factor in ((8, 2, 10), (1024, 2, 10), (2048, 2, 1), (2**20, 4, 1), (2**24, 2, 1)):
        expected = 2 * (ranks - 1) * factor * (ALPHA + nbytes / ranks * BETA)
        assert predicted_ring(links, ranks, nbytes) == pytest.approx(expected), nbytes


def test_the_ring_stands_beside_its_formula_from_the_smallest_array_to_the_largest() -> None:
    talk = made_collectives()
    rows = ring_rows(talk)
    assert not isinstance(rows, Unmeasured)
    assert (rows[0].size, rows[-1].size) == (size_words(SIZES[0]), size_words(SIZES[-1]))
    assert [row.sent for row in rows] == [row.size for row in rows], "two ranks send the array once"
    assert rows[-1].predicted.value == pytest.approx(2 * (ALPHA + SIZES[-1] / 2 * BETA), rel=0.02)
    assert rows[-1].ring is talk.of("ring all-reduce")[SIZES[-1]]


def test_a_ring_grows_by_steps_where_arrays_are_small_and_hardly_where_they_are_large() -> None:
    link = given_link(5e-6, 12.5e9)
    rings = messages.ring_costs({p: (ring_cost(8, p, link), ring_cost(2**30, p, link)) for p in (2, 8, 4096)})
    assert [one.sent.value for one in rings] == pytest.approx([1.0, 1.75, 2 * 4095 / 4096])
    assert (rings[0].small_growth.value, rings[0].large_growth.value) == (1, 1)
    assert rings[-1].small_growth.value == pytest.approx(4095, rel=0.01)
    assert 2 < rings[-1].large_growth.value < 3


def test_one_core_compares_nothing() -> None:
    alone = made_collectives(oversubscribed=True)
    assert isinstance(link_rows(alone), Unmeasured)
    assert isinstance(ring_rows(alone), Unmeasured)
    assert isinstance(messages.all_reduces(alone).grown, Unmeasured)
    assert messages.all_reduces(alone).flops.median > 0
    assert isinstance(alone.compare("ring all-reduce", "all-reduce", SIZES[-1]), Unmeasured)
    assert isinstance(made_collectives().compare("ring all-reduce", "all-reduce", SIZES[-1]), Comparison)
