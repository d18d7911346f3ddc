"""What the page says of products over their width, told made results."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.chapters.made_turns import in_turns, records
from tests.perf.made_ceilings import made_ceilings
from tinytorch.chapters.acceleration import widths as chapter
from tinytorch.chapters.acceleration.widths import Width, study_widths, widths_beyond
from tinytorch.report import Page
from tinytorch.report.records import Json

LOOPS, TILES, REGISTERS, PACKED = "i k j", "i k j in cache tiles", "tile in registers", "packed tile"
#: Rates at each width in FLOP/s. The made machine's caches allow 180 and 45 GFLOP/s, its memory 4.5.
NEAR = {LOOPS: 20e9, TILES: 18e9, REGISTERS: 60e9, PACKED: 50e9}
FAR = {LOOPS: 4e9, TILES: 16e9, REGISTERS: 20e9, PACKED: 60e9}


def width_of(width: int, rates: Mapping[str, float], noise: float = 0.0) -> Width:
    seconds = {way: 2 * (24 if way in (LOOPS, TILES) else 96) * width**2 / rate for way, rate in rates.items()}
    return Width(width, in_turns(seconds, noise={TILES: noise or 1e-6}))


def said_of(*widths: Width) -> dict[str, Json]:
    page = Page("acceleration")
    chapter.show_caches(page, made_ceilings())
    chapter.record_widths(page, widths, made_ceilings())
    chapter.claim_tiling(page, widths, made_ceilings())
    return records(page)


def test_widths_double_until_a_matrix_is_well_beyond_the_last_cache() -> None:
    assert widths_beyond(2**20) == (192, 384, 768)
    assert 4 * widths_beyond(2**25)[-1] ** 2 >= 2 * 2**25
    assert widths_beyond(2**40)[-1] == 12_288


def test_each_way_is_timed_at_each_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chapter, "widths_beyond", lambda cache: (48, 96))
    found = study_widths(made_ceilings(), at_most_seconds=0.05)
    assert [each.width for each in found] == [48, 96]
    assert all([*each.seconds] == [LOOPS, TILES, REGISTERS, PACKED] for each in found)
    assert found[1].bytes == 4 * 96**2


def test_rates_and_what_is_left_of_them_are_told() -> None:
    said = said_of(width_of(192, NEAR), width_of(384, NEAR), width_of(768, FAR))
    value = {key: record.get("value") for key, record in said.items()}
    assert value["narrow-loops"] == pytest.approx(20e9)
    assert (value["kept-loops"], value["kept-tiles"]) == (pytest.approx(0.2), pytest.approx(8 / 9))
    assert (value["cache-gain-wide"], value["panel-gain-wide"]) == (pytest.approx(4), pytest.approx(3))
    assert value["cache-gain-narrow"] == pytest.approx(0.9)
    assert value["widest-bytes"] == 4 * 768**2
    # The second cache, 1 MiB, is the last whose 45 GFLOP/s are above the 20 of loops.
    assert (value["pays-predicted"], value["pays-measured"]) == (512, 768)
    # What it leaves for is memory, with its 4.5 GFLOP/s.
    assert (value["pays-next"], value["pays-memory"]) == (pytest.approx(20 / 4.5), pytest.approx(20 / 4.5))
    rows = {row["level"]: row for row in said["caches"]["rows"]}
    assert rows["L2"]["width"]["value"] == 512
    assert rows["memory"]["bound"]["value"] == pytest.approx(4.5e9)
    assert rows["memory"]["width"] is None


def test_tiles_that_never_pay_are_said_to() -> None:
    said = said_of(width_of(192, NEAR), width_of(768, NEAR))
    assert said["pays-measured"]["kind"] == "absent"


def test_a_width_at_which_tiles_are_slower_again_is_not_the_first() -> None:
    said = said_of(width_of(192, FAR), width_of(384, NEAR), width_of(768, FAR))
    assert said["pays-measured"]["value"] == 768


def test_where_no_level_holds_the_loops_up_nothing_is_predicted() -> None:
    said = said_of(width_of(192, {**NEAR, LOOPS: 1e9}), width_of(768, FAR))
    assert {said[key]["kind"] for key in ("pays-predicted", "pays-next", "pays-memory")} == {"absent"}


def test_a_nearer_level_that_holds_the_loops_up_is_the_next() -> None:
    said = said_of(width_of(192, {**NEAR, LOOPS: 90e9}), width_of(768, FAR))
    assert said["pays-predicted"]["value"] == 90
    assert (said["pays-next"]["value"], said["pays-memory"]["value"]) == (pytest.approx(2), pytest.approx(20))


@pytest.mark.parametrize(
    ("near", "far", "noise", "verdict"),
    [
        (18e9, 16e9, 0.0, "supported"),
        (18e9, 3e9, 0.0, "refuted"),
        (90e9, 16e9, 0.0, "refuted"),
        (18e9, 4e9, 0.3, "open"),
    ],
)
def test_tiles_must_help_beyond_the_cache_and_more_than_within(
    near: float, far: float, noise: float, verdict: str
) -> None:
    said = said_of(width_of(192, {**NEAR, TILES: near}), width_of(768, {**FAR, TILES: far}, noise))
    assert said["tiling"]["verdict"] == verdict
    assert "larger than cache" in said["tiling"]["quote"]


def test_without_a_matrix_beyond_the_cache_nothing_is_decided() -> None:
    assert said_of(width_of(192, NEAR), width_of(384, FAR))["tiling"]["verdict"] == "open"
