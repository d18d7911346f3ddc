"""What the page on several ranks records of machines that differ: each arm, with made results."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chapters.distributed.made_steps import made_scaling, made_steps, overlapped
from tests.chapters.distributed.test_model_records import CLUSTER, MODEL, ONE, WORK, made_validation, near
from tests.chapters.distributed.test_timeline_figure import overlapped as made_step
from tests.perf.distributed.collectives.made_times import SIZES, made_times
from tests.perf.synthetic_machine import around, synthetic_ceilings
from tinytorch.chapters.distributed import model_records, records
from tinytorch.chapters.distributed.explorer import RANKS, SHARDING
from tinytorch.chapters.distributed.fault_study import Lost
from tinytorch.chapters.distributed.step_times import Overlap, RankMemory, ShardedMemory
from tinytorch.perf.distributed import best_splits, given_link, ring_cost
from tinytorch.perf.distributed.collectives.measured import Collectives
from tinytorch.perf.distributed.recording.stragglers import Doing, Straggler
from tinytorch.perf.machine import identity
from tinytorch.perf.measuring import Measurement, quantity
from tinytorch.report import Page

PAGE = Path(__file__).resolve().parents[3] / "book" / "distributed.md"
LINK = given_link(5e-6, 12.5e9)
GROWN = {p: (ring_cost(8, p, LINK), ring_cost(2**30, p, LINK)) for p in (2, 8, 64, 512, 4096)}
DIED, HUNG = Lost("rank 1 died", 10, 0.5), Lost("rank 1 hangs", 10, 2.4)


@pytest.fixture(autouse=True)
def _no_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ceilings", lambda threads: synthetic_ceilings(threads))
    monkeypatch.setattr(records, "may_pin", lambda: True)


def made_collectives(oversubscribed: bool = False) -> Collectives:
    """Return the page's kinds, the ring ten times as slow as the library."""
    times: dict[Any, dict[int, Measurement]] = {}
    factors = {"point to point": 1.0, "all-reduce": 2.0, "ring all-reduce": 20.0}
    names = [f"{kind} of {size} B" for kind in factors for size in SIZES]
    how = {"oversubscribed": oversubscribed, "interleaved_with": names}
    for seed, (kind, factor) in enumerate(factors.items()):
        times[kind] = {
            size: Measurement(f"{kind} of {size} B", tuple(factor * sample for sample in one.samples), "s", how)
            for size, one in made_times(0.01, seed=seed).items()
        }
    return Collectives(2, 1, "MPI", oversubscribed, times, Measurement("barrier", (1e-6,) * 15, "s"))


def made_memory() -> ShardedMemory:
    whole, shard = RankMemory(1000, 1000, 2000, 5000), RankMemory(1000, 0, 504, 5000)
    return ShardedMemory("gpt", 64, (whole,) * 4, (shard,) * 3 + (replace(shard, optimizer_state=500),))


def straggler(rank: int, *excess: Doing) -> Straggler:
    return Straggler(rank, 0.01, 0.2, (), excess)


def started(cores: int = 2) -> Page:
    page = Page("distributed")
    records.record_machine(page, cores, 2, quantity(1e12, "s", "a long training"), 2.8e12)
    return page


def bodies(page: Page) -> dict[str, Any]:
    return {record.key: record.to_json() for record in page.records}


def whole_page(cores: int) -> dict[str, Any]:
    """Return all records of the page where there are so many cores."""
    alone, page = cores < 2, started(cores)
    counts = {1: 1.0, 2: 0.6, 4: 0.4} if cores > 3 else {1: 1.0, 2: 0.6}
    talk = made_collectives(alone)
    records.record_collectives(page, talk)
    records.record_ring(page, talk, around(1e-3, "s", 0.01) if cores > 3 else None, LINK, (8, 2**30), GROWN)
    records.record_timelines(page, {"overlapped": [made_step()], "afterwards": [made_step(2)]})
    records.record_straggler(page, [] if alone else [straggler(1, Doing("matmul", "forward", "Burden", 0.01))], 1)
    records.record_overlap(page, overlapped(0.6, marked=("overlapped", "apart", "alone") if alone else ()))
    scalings = [made_scaling("strong", counts, cores=cores) for _ in range(3)]
    slower = {count: 1 + count / 10 for count in counts}
    records.record_scaling(
        page, dict(zip((8, 64, 128), scalings, strict=True)), made_scaling("weak", slower, cores=cores)
    )
    records.record_memory(page, made_memory())
    model_records.record_validation(page, None if alone else made_validation(), None if alone else near())
    model_records.record_published(page)
    model_records.record_published_runs(page)
    best = best_splits(WORK, CLUSTER.links, RANKS, memory_bytes=CLUSTER.memory_bytes, sharding=SHARDING)
    model_records.record_splits(page, CLUSTER, MODEL, best, ONE)
    records.record_lost_rank(page, DIED, 1e-12, HUNG, 2.0)
    records.record_answers(page, LINK, 175e9)
    return bodies(page)


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_on_every_machine_the_text_finds_what_it_names(cores: int) -> None:
    text = PAGE.read_text("utf-8")
    named = set(re.findall(r"\{(?:measured|verdict)\}`([\w-]+)`", text))
    named |= set(re.findall(r"^:*\{(?:predict|claim)\} ([\w-]+)$", text, re.MULTILINE))
    for names in re.findall(r"\{if-(?:measured|absent)\} (.*)$", text, re.MULTILINE):
        named |= set(names.split())
    assert len(named) > 50
    assert named <= whole_page(cores).keys()


def test_more_cores_say_more_and_never_lose_a_record() -> None:
    one, two, four = map(whole_page, (1, 2, 4))
    assert one.keys() <= two.keys() == four.keys()
    gone = {key for key, record in one.items() if record["kind"] == "absent"}
    still = {key for key, record in two.items() if record["kind"] == "absent"}
    assert still == {"ring-growth", "ring-independent"} < gone
    assert "two-speedup" in gone
    assert not {key for key, record in four.items() if record["kind"] == "absent"}
    assert all("one core" in one[key]["reason"] for key in ("links", "scaling", "overlap-gain", "double-workers"))


def test_the_page_says_how_ranks_were_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bodies(started(1))["placing"]["word"].startswith("sharing one core")
    assert bodies(started(1))["cores"]["unit"] == "core"
    assert bodies(started())["placing"]["word"] == "each pinned to a core of its own"
    monkeypatch.setattr(records, "may_pin", lambda: False)
    assert bodies(started())["placing"]["word"] == "none kept on a core of its own"


def test_the_library_is_compared_with_the_ring_only_where_ranks_had_cores() -> None:
    page = started()
    records.record_collectives(page, made_collectives())
    assert bodies(page)["ring-large-verdict"]["word"] == "faster"
    assert bodies(page)["ring-large"]["value"] == pytest.approx(10, rel=0.05)
    assert len(bodies(page)["links"]["rows"]) >= 3


@pytest.mark.parametrize(("two", "verdict"), [(0.98, "supported"), (0.5, "refuted")])
def test_a_ring_that_took_as_long_on_two_ranks_does_not_depend_on_them(two: float, verdict: str) -> None:
    page, talk = started(4), made_collectives()
    whole = talk.of("ring all-reduce")[talk.sizes[-1]]
    records.record_ring(page, talk, whole.scaled(two), LINK, (8, 2**30), GROWN)
    made = bodies(page)
    assert made["ring-independent"]["verdict"] == verdict
    assert made["ring-growth"]["value"] == pytest.approx(1 / two)
    interval = made["ring-growth"]["interval"]
    assert interval["low"] < 1 / two < interval["high"]


def test_two_ranks_are_measured_only_beside_more(monkeypatch: pytest.MonkeyPatch) -> None:
    talk = made_collectives()
    monkeypatch.setattr(records, "measure_collectives", lambda ranks, sizes, kinds: talk)
    assert records.ring_on_two(3, talk) is None
    assert records.ring_on_two(4, talk) == talk.of("ring all-reduce")[talk.sizes[-1]]


@pytest.mark.parametrize(("found", "word"), [(1, "the burdened one"), (0, "another one")])
def test_the_straggler_is_the_burdened_rank_or_another(found: int, word: str) -> None:
    page = started()
    records.record_straggler(page, [straggler(found)], 1)
    assert bodies(page)["found-it"]["word"] == word
    assert bodies(page)["straggler-op"]["word"] == "nothing"


@pytest.mark.parametrize(("hidden", "verdict"), [(0.9, "supported"), (0.1, "refuted")])
def test_half_of_the_cost_hidden_supports_the_claim(hidden: float, verdict: str) -> None:
    page = started()
    records.record_overlap(page, overlapped(hidden))
    assert bodies(page)["hidden-communication"]["verdict"] == verdict


def test_where_joining_costs_nothing_the_claim_cannot_be_told() -> None:
    steps, page = made_steps({"overlapped": 0.01, "apart": 0.01, "alone": 0.01}), started()
    records.record_overlap(page, Overlap(2, "mlp", 8, 2**20, steps["overlapped"], steps["apart"], steps["alone"]))
    made = bodies(page)
    assert "nothing to hide" in made["hidden-share"]["reason"]
    assert made["hidden-communication"]["verdict"] == "cannot tell here"
    assert "nothing to hide" in made["hidden-communication"]["evidence"]
    assert "{hidden-share}" not in made["hidden-communication"]["evidence"]


@pytest.mark.parametrize(("third", "verdict"), [(0.505, "supported"), (0.7, "refuted")])
def test_two_workers_halve_the_time_only_if_they_do_for_every_batch(third: float, verdict: str) -> None:
    page = started()
    strong = {n: made_scaling("strong", {1: 1.0, 2: two}) for n, two in ((8, 0.5), (64, 0.505), (128, third))}
    records.record_scaling(page, strong, made_scaling("weak", {1: 1.0, 2: 1.2}))
    made = bodies(page)
    assert made["double-workers"]["verdict"] == verdict
    assert made["weak-word"]["word"] == "sublinear"
    assert [row["way"] for row in made["scaling"]["rows"]][-1] == "8 each, 2 ranks"


def test_a_rank_that_shared_its_core_withholds_words_and_claim_alike() -> None:
    """One core of the pair was busy with something else; the speedup itself would refute the claim."""
    page = started()
    disturbed = made_scaling("strong", {1: 1.0, 2: 0.85}, cpu_per_wall={2: 0.52})
    quiet = made_scaling("strong", {1: 1.0, 2: 0.5})
    records.record_scaling(page, {8: disturbed, 64: quiet, 128: quiet}, made_scaling("weak", {1: 1.0, 2: 1.2}))
    made = bodies(page)
    assert made["small-word"]["word"] == made["scaling"]["rows"][0]["word"] == "cannot tell here"
    assert made["double-workers"]["verdict"] == "cannot tell here"


def test_what_no_serial_share_explains_has_none() -> None:
    page = started()
    strong = {n: made_scaling("strong", {1: 1.0, 2: 0.45}) for n in (8, 64, 128)}
    records.record_scaling(page, strong, made_scaling("weak", {1: 1.0, 2: 1.2}))
    made = bodies(page)
    assert made["strong-serial"]["reason"] == records.NO_SHARE
    assert made["weak-serial"]["value"] == pytest.approx(2 - 2 / 1.2, rel=0.05)


def test_memory_is_that_of_the_fullest_rank() -> None:
    page = started()
    records.record_memory(page, made_memory())
    made = bodies(page)
    assert made["sharded-state"]["value"] == 504
    assert made["sharded-ratio"]["value"] == pytest.approx(1504 / 4000)


@pytest.mark.parametrize(("apart", "word"), [(1e-12, "the same to rounding"), (1e-3, "different")])
def test_a_restart_and_an_end_are_told_as_they_were(apart: float, word: str) -> None:
    page = started()
    records.record_lost_rank(page, DIED, apart, replace(HUNG, seconds=9.0), 2.0)
    made = bodies(page)
    assert made["same-weights"]["word"] == word
    assert (made["hang-seconds"]["value"], made["hang-promise"]["kind"]) == (9.0, "modelled")


def test_one_core_makes_two_ranks_and_many_make_four(monkeypatch: pytest.MonkeyPatch) -> None:
    here = identity()
    for cores, expected in ((1, (1, True, 2)), (2, (2, False, 2)), (3, (3, False, 3)), (64, (64, False, 4))):
        monkeypatch.setattr(records, "identity", lambda cores=cores: replace(here, cores_usable=cores))
        assert records.ranks_here() == expected
