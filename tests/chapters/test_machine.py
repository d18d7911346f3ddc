"""What the page on the machine records of machines that differ: each arm, with made ceilings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.perf.synthetic_machine import around, synthetic_ceilings
from tinytorch.chapters import machine as chapter
from tinytorch.perf.kernels.int8.instructions import DOTS, Dot
from tinytorch.perf.machine import Ceilings
from tinytorch.report import Page
from tinytorch.report.records import Json

ONE = replace(synthetic_ceilings(), int8_from="vpdpbusd zmm")
TWO = replace(
    synthetic_ceilings(threads=2), fp32_peak=around(490e9, "FLOP/s", 0.01), int8_peak=around(2e12, "OP/s", 0.01)
)
UNREPORTED = replace(ONE, levels=tuple(replace(level, capacity_reported=None) for level in ONE.levels))


def records(one: Ceilings, several: Ceilings | None) -> dict[str, Json]:
    """Return all records of the page's ceilings by key."""
    page = Page("machine")
    chapter.record_peaks(page, one, several)
    chapter.record_levels(page, one)
    chapter.record_caches(page, one)
    chapter.record_int8(page, one)
    chapter.record_cores(page, one, several)
    return {record.key: record.to_json() for record in page.records}


@pytest.mark.parametrize("one", [ONE, UNREPORTED, replace(ONE, int8_from="multiply")])
@pytest.mark.parametrize("several", [None, TWO])
def test_on_every_machine_the_text_finds_what_it_names(one: Ceilings, several: Ceilings | None) -> None:
    all_keys = records(ONE, TWO).keys()
    named = {key for key in all_keys if not key.startswith("capacity-")}
    assert named <= records(one, several).keys() <= all_keys


def test_on_one_core_nothing_is_said_of_a_second() -> None:
    made = records(ONE, None)
    for key in ("cores", "cores-arithmetic", "cores-bandwidth", "second-core"):
        assert made[key]["kind"] == "absent"
        assert "one core only" in made[key]["reason"]
    assert [column["key"] for column in made["peaks"]["columns"]] == ["what", "one"]


@pytest.mark.parametrize(
    ("peak", "bandwidth", "verdict"), [(2.0, 2.0, "supported"), (2.0, 1.1, "refuted"), (1.0, 2.0, "refuted")]
)
def test_two_cores_double_speed_only_if_both_ceilings_do(peak: float, bandwidth: float, verdict: str) -> None:
    fast = replace(ONE.levels[-1], read=ONE.levels[-1].read.scaled(bandwidth))
    two = replace(TWO, fp32_peak=ONE.fp32_peak.scaled(peak), levels=(*ONE.levels[:-1], fast))
    assert records(ONE, two)["second-core"]["verdict"] == verdict


def test_without_reported_caches_the_claim_says_why_it_is_not_there() -> None:
    made = records(UNREPORTED, TWO)
    assert made["caches-are-yours"]["reason"] == chapter.NO_CACHES
    assert not [key for key in made if key.startswith("capacity-")]


@pytest.mark.parametrize(("factor", "verdict"), [(1.0, "supported"), (0.5, "refuted")])
def test_a_cache_is_ours_if_most_of_it_was_found(factor: float, verdict: str) -> None:
    first = ONE.levels[0]
    assert first.capacity_measured is not None
    held = replace(first, capacity_measured=int(first.capacity_measured * factor))
    made = records(replace(ONE, levels=(held, *ONE.levels[1:])), TWO)
    assert made["caches-are-yours"]["verdict"] == verdict


@pytest.mark.parametrize("dot", DOTS, ids=lambda dot: dot.name)
def test_four_times_is_asked_of_cpus_with_a_dot_product_alone(dot: Dot) -> None:
    name = dot.name
    made = records(replace(ONE, int8_from=name), TWO)
    assert made["int8-over-fp32"]["value"] == pytest.approx(4, rel=0.1)
    if name in ("vpmaddwd zmm", "vpmaddwd ymm", "multiply"):
        assert made["int8-four-times"]["kind"] == "absent"
    else:
        assert made["int8-four-times"]["verdict"] == "supported"
    assert made["peaks"]["rows"][2]["what"] == f"INT8 arithmetic, by {name}"


def test_half_of_four_times_refutes_it() -> None:
    assert records(replace(ONE, int8_peak=ONE.int8_peak.scaled(0.5)), TWO)["int8-four-times"]["verdict"] == "refuted"
