"""What the page on several ranks records of machines that differ: each arm, with made results."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.chapters.distributed.made_steps import made_scaling, overlapped
from tests.chapters.distributed.test_model_records import CLUSTER, MODEL, ONE, WORK, made_validation, near
from tests.chapters.distributed.test_timeline_figure import overlapped as made_step
from tests.chapters.made_turns import said_in
from tests.perf.distributed.collectives.made_times import ALPHA, BETA, SIZES, made_times
from tests.perf.synthetic_machine import around, synthetic_ceilings
from tinytorch.chapters.distributed import model_records, records
from tinytorch.chapters.distributed.explorer import RANKS, SHARDING
from tinytorch.chapters.distributed.fault_study import Lost
from tinytorch.chapters.distributed.figures import size_words
from tinytorch.chapters.distributed.published import zero_2020
from tinytorch.chapters.distributed.records import predicted_ring
from tinytorch.chapters.distributed.step_times import RankMemory, ShardedMemory
from tinytorch.perf.distributed import best_splits, given_link, ring_cost
from tinytorch.perf.distributed.collectives.link_fit import fit
from tinytorch.perf.distributed.collectives.measured import Collectives
from tinytorch.perf.distributed.recording.stragglers import Doing, Straggler
from tinytorch.perf.machine import identity
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions, Ranks
from tinytorch.report import Page

PAGE = Path(__file__).resolve().parents[3] / "book" / "distributed.md"
LINK = given_link(5e-6, 12.5e9)
GROWN = {p: (ring_cost(8, p, LINK), ring_cost(2**30, p, LINK)) for p in (2, 8, 64, 512, 4096)}
DIED = Lost("rank 1 died", 10, 0.5)


@pytest.fixture(autouse=True)
def _no_ceilings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "ceilings", lambda threads: synthetic_ceilings(threads))
    monkeypatch.setattr(records, "may_pin", lambda: True)


def made_collectives(oversubscribed: bool = False) -> Collectives:
    """Return the page's kinds, the ring ten times as slow as the library."""
    times: dict[Any, dict[int, Measurement]] = {}
    factors = {"point to point": 1.0, "all-reduce": 2.0, "ring all-reduce": 20.0}
    names = [f"{kind} of {size} B" for kind in factors for size in SIZES]
    conditions = Conditions(instrument=Ranks(ranks=2, oversubscribed=oversubscribed), interleaved_with=tuple(names))
    for seed, (kind, factor) in enumerate(factors.items()):
        times[kind] = {
            size: Measurement(f"{kind} of {size} B", tuple(factor * sample for sample in one.samples), "s", conditions)
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
    records.record_machine(page, cores, 2, Measurement("a long training", (1e12,), "s"), 2.8e12)
    return page


def bodies(page: Page) -> dict[str, Any]:
    return {record.key: record.to_json() for record in page.records}


def whole_page(cores: int) -> dict[str, Any]:
    """Return all records of the page where there are so many cores."""
    alone, page = cores < 2, started(cores)
    counts = {1: 1.0, 2: 0.6, 4: 0.4} if cores > 3 else {1: 1.0, 2: 0.6}
    talk = made_collectives(alone)
    records.record_collectives(page, talk)
    records.record_ring(page, talk, LINK, (8, 2**30), GROWN)
    records.record_timelines(page, {"overlapped": [made_step()], "afterwards": [made_step(2)]})
    records.record_straggler(page, [] if alone else [straggler(1, Doing("matmul", "forward", "Burden", 0.01))], 1)
    records.record_overlap(page, overlapped(0.6, marked=("overlapped", "apart", "alone") if alone else ()))
    slower = {count: 1 + count / 10 for count in counts}
    strong = [made_scaling("strong", counts, cores=cores) for _ in range(2)]
    records.record_scaling(page, [*strong, made_scaling("weak", slower, cores=cores)])
    records.record_sharding(page, list(zero_2020()))
    records.record_memory(page, made_memory())
    model_records.record_validation(page, None if alone else made_validation(), None if alone else near())
    model_records.record_published(page)
    model_records.record_published_runs(page)
    best = best_splits(WORK, CLUSTER.links, RANKS, memory_bytes=CLUSTER.memory_bytes, sharding=SHARDING)
    model_records.record_splits(page, CLUSTER, MODEL, best, ONE)
    records.record_lost_rank(page, DIED, 1e-12)
    records.record_answers(page, LINK, 175e9, around(100e9, "FLOP/s"))
    page.number("in-pytorch", 4, unit="lines", what="printed by PyTorch")
    return bodies(page)


@pytest.mark.parametrize("cores", [1, 2, 4])
def test_on_every_machine_the_text_finds_what_it_names(cores: int) -> None:
    text = PAGE.read_text("utf-8")
    named = set(re.findall(r"\{(?:measured|verdict)\}`([\w-]+)`", text))
    named |= set(re.findall(r"^:*\{(?:predict|claim)\} ([\w-]+)$", text, re.MULTILINE))
    for names in re.findall(r"\{if-(?:measured|absent)\} (.*)$", text, re.MULTILINE):
        named |= set(names.split())
    assert len(named) > 40
    assert named <= whole_page(cores).keys()


def test_gpt2s_gradients_take_what_a_ring_of_eight_does_on_the_assumed_link() -> None:
    found = whole_page(1)
    sent = 7 / 4 * 4 * 124_439_808
    assert found["gpt2-reduced-bytes"]["value"] == pytest.approx(sent)
    assert found["gpt2-reduced"]["value"] == pytest.approx(sent / 12.5e9 + 14 * 5e-6)
    assert found["gpt2-step-flops"]["value"] == 3 * 291_648_307_200, "published counts of GPT-2 at 1,024 positions"
    assert found["gpt2-step-seconds"]["value"] == pytest.approx(3 * 2.91648307200)
    assert found["gpt2-rank-rate"]["value"] * found["gpt2-reduced"]["value"] == pytest.approx(3 * 291_648_307_200)


def test_more_cores_say_more_and_never_lose_a_record() -> None:
    one, two, four = map(whole_page, (1, 2, 4))
    assert one.keys() <= two.keys() == four.keys()
    gone = {key for key, record in one.items() if record["kind"] == "absent"}
    assert {"two-speedup", "large-all-reduce", "overlap-accelerates", "ring"} < gone
    for made in (two, four):
        assert not {key for key, record in made.items() if record["kind"] == "absent"}
    assert all("one core" in one[key]["reason"] for key in ("links", "scaling", "overlap-gain", "large-all-reduce"))


def test_the_page_says_how_ranks_were_placed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert bodies(started(1))["placing"]["word"].startswith("sharing one core")
    assert bodies(started(1))["cores"]["unit"] == "core"
    assert bodies(started())["placing"]["word"] == "each pinned to a core of its own"
    monkeypatch.setattr(records, "may_pin", lambda: False)
    assert bodies(started())["placing"]["word"] == "none kept on a core of its own"


def test_the_library_is_compared_with_the_ring_only_where_ranks_had_cores() -> None:
    page = started()
    records.record_collectives(page, made_collectives())
    records.record_ring(page, made_collectives(), LINK, (8, 2**30), GROWN)
    assert bodies(page)["ring-large-verdict"]["word"] == "faster"
    assert bodies(page)["ring-large"]["value"] == pytest.approx(10, rel=0.05)
    assert len(bodies(page)["links"]["rows"]) >= 3


@pytest.mark.parametrize(("smallest", "verdict"), [(1e-6, "supported"), (1e-13, "refuted"), (2e-10, "open")])
def test_a_large_all_reduce_has_much_higher_bandwidth_if_it_has_twice_that_of_a_small_one(
    smallest: float, verdict: str
) -> None:
    """The largest takes 1e-10 s a byte; a small one that takes twice as long for each is at the boundary."""
    page, talk = started(), made_collectives()
    size, large = talk.sizes[0], talk.sizes[-1]
    conditions = talk.of("all-reduce")[size].conditions
    each = {size: smallest * 8, large: 1e-10 * large}
    times = {
        nbytes: Measurement(
            f"all-reduce of {nbytes} B", around(each.get(nbytes, 1e-5), "s", 0.01).samples, "s", conditions
        )
        for nbytes in talk.sizes
    }
    records.record_collectives(page, replace(talk, times={**talk.times, "all-reduce": times}))
    made = bodies(page)
    assert made["large-all-reduce"]["verdict"] == verdict
    assert made["large-over-small"]["value"] == pytest.approx(smallest / 1e-10, rel=0.05)


def test_the_ring_is_predicted_by_the_line_that_holds_for_its_parts() -> None:
    slow = {size: one.scaled(10) for size, one in made_times(0.0, sizes=[2**power for power in range(3, 10)]).items()}
    fast = made_times(0.0, sizes=[2**power for power in range(10, 22)])
    links = (fit(slow), fit(fast))
    for nbytes, ranks, factor in ((8, 2, 10), (1024, 2, 10), (2048, 2, 1), (2**20, 4, 1), (2**24, 2, 1)):
        expected = 2 * (ranks - 1) * factor * (ALPHA + nbytes / ranks * BETA)
        assert predicted_ring(links, ranks, nbytes) == pytest.approx(expected), nbytes


def test_the_ring_stands_beside_its_formula_from_the_smallest_array_to_the_largest() -> None:
    page, talk = started(), made_collectives()
    records.record_ring(page, talk, LINK, (8, 2**30), GROWN)
    rows = bodies(page)["ring"]["rows"]
    assert (rows[0]["size"], rows[-1]["size"]) == (size_words(talk.sizes[0]), size_words(talk.sizes[-1]))
    assert [row["sent"] for row in rows] == [row["size"] for row in rows], "two ranks send the array once"
    last = rows[-1]
    assert last["predicted"]["kind"] == "modelled"
    assert last["predicted"]["value"] == pytest.approx(2 * (ALPHA + talk.sizes[-1] / 2 * BETA), rel=0.02)
    assert last["ring"]["value"] == talk.of("ring all-reduce")[talk.sizes[-1]].median


@pytest.mark.parametrize(("found", "word"), [(1, "the burdened one"), (0, "another one")])
def test_the_straggler_is_the_burdened_rank_or_another(found: int, word: str) -> None:
    page = started()
    records.record_straggler(page, [straggler(found)], 1)
    assert said_in(bodies(page)["found-it"]) == word
    assert bodies(page)["straggler-cost"]["value"] == 0.01


@pytest.mark.parametrize(
    ("hidden", "noise", "verdict"),
    [(0.9, 0.002, "supported"), (-0.5, 0.002, "refuted"), (0.02, 0.05, "open")],
)
def test_overlap_accelerates_if_a_step_is_faster_with_it(hidden: float, noise: float, verdict: str) -> None:
    page = started()
    records.record_overlap(page, overlapped(hidden, noise))
    assert bodies(page)["overlap-accelerates"]["verdict"] == verdict


@pytest.mark.parametrize(("printed", "verdict"), [(31.4, "supported"), (31.5, "refuted")])
def test_the_digits_that_a_paper_prints_are_met_or_not(printed: float, verdict: str) -> None:
    page = started()
    whole, cut, *others = zero_2020()
    records.record_sharding(page, [whole, replace(cut, published=printed), *others])
    made = bodies(page)
    assert made["zero-state-sharded"]["verdict"] == verdict
    assert made["zero-state-sharded"]["counted"] is True
    assert made["zero-state"]["value"] == pytest.approx((2 + 2 + 12 / 64) * 7.5)
    for row, expected in zip(made["zero"]["rows"], (16, 4 + 12 / 64, 2 + 14 / 64, 16 / 64), strict=True):
        assert row["counted"]["value"] == pytest.approx(expected * 7.5)


def test_a_rank_that_shared_its_core_withholds_words() -> None:
    """One core of the pair was busy with something else."""
    page = started()
    disturbed = made_scaling("strong", {1: 1.0, 2: 0.85}, cpu_per_wall={2: 0.52})
    quiet, weak = made_scaling("strong", {1: 1.0, 2: 0.5}), made_scaling("weak", {1: 1.0, 2: 1.4})
    records.record_scaling(page, [disturbed, quiet, weak])
    made = bodies(page)
    assert said_in(made["small-word"]) == said_in(made["scaling"]["rows"][0]["word"]) == "withheld"
    assert (made["large-word"]["word"], made["weak-word"]["word"]) == ("linear", "sublinear")
    assert [row["way"] for row in made["scaling"]["rows"]][-1] == "weak, 8 each, 2 ranks"


def test_what_no_serial_share_explains_has_none() -> None:
    page = started()
    strong = made_scaling("strong", {1: 1.0, 2: 0.45})
    records.record_scaling(page, [strong, strong, made_scaling("weak", {1: 1.0, 2: 1.2})])
    made = bodies(page)
    assert made["strong-serial"]["reason"] == records.NO_SHARE
    for words in (made["scaling-laws"]["caption"], made["scaling-laws"]["alt"]):
        assert "Gustafson's law" in words
        assert "Amdahl" not in words
    assert made["weak-serial"]["value"] == pytest.approx(2 - 2 / 1.2, rel=0.05)


def test_the_figure_names_the_laws_that_it_draws() -> None:
    for strong, weak, caption in (
        (0.6, 1.2, "dashed by Amdahl's and Gustafson's laws. The"),
        (0.6, 0.9, "dashed by Amdahl's law. The"),
        (0.45, 0.9, "as far as the cores go. The"),
    ):
        page, made = started(), made_scaling("strong", {1: 1.0, 2: strong})
        records.record_scaling(page, [made, made, made_scaling("weak", {1: 1.0, 2: weak})])
        assert caption in bodies(page)["scaling-laws"]["caption"]


def test_memory_is_that_of_the_fullest_rank() -> None:
    page = started()
    records.record_memory(page, made_memory())
    made = bodies(page)
    assert made["sharded-state"]["value"] == 504
    assert made["sharded-ratio"]["value"] == pytest.approx(1504 / 4000)


@pytest.mark.parametrize(("apart", "word"), [(1e-12, "the same to rounding"), (1e-3, "different")])
def test_a_restart_and_an_end_are_told_as_they_were(apart: float, word: str) -> None:
    page = started()
    records.record_lost_rank(page, DIED, apart)
    made = bodies(page)
    assert said_in(made["same-weights"]) == word
    assert (made["end-seconds"]["value"], made["kept-steps"]["value"]) == (0.5, 10)


def test_one_core_makes_two_ranks_and_many_make_four(monkeypatch: pytest.MonkeyPatch) -> None:
    here = identity()
    for cores, expected in ((1, (1, True, 2)), (2, (2, False, 2)), (3, (3, False, 3)), (64, (64, False, 4))):
        monkeypatch.setattr(records, "identity", lambda cores=cores: replace(here, cores_usable=cores))
        assert records.ranks_here() == expected
