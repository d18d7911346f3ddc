"""What a sweep over widths comes to, of made results."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tests.chapters.made_turns import in_turns
from tests.perf.made_ceilings import made_ceilings
from tinytorch.chapters.acceleration import widths as chapter
from tinytorch.chapters.acceleration.widths import Paying, Sweep, Width, study_widths, widths_beyond
from tinytorch.perf.measuring import Derived, Unmeasured

LOOPS, TILES, REGISTERS, PACKED = "i k j", "i k j in cache tiles", "tile in registers", "packed tile"
#: Rates at each width in FLOP/s. The made machine's caches allow 180 and 45 GFLOP/s, its memory 4.5.
NEAR = {LOOPS: 20e9, TILES: 18e9, REGISTERS: 60e9, PACKED: 50e9}
FAR = {LOOPS: 4e9, TILES: 16e9, REGISTERS: 20e9, PACKED: 60e9}


def width_of(width: int, rates: Mapping[str, float], noise: float = 0.0) -> Width:
    seconds = {way: 2 * (24 if way in (LOOPS, TILES) else 96) * width**2 / rate for way, rate in rates.items()}
    return Width(width, in_turns(seconds, noise={TILES: noise or 1e-6}))


def sweep_of(*widths: Width) -> Sweep:
    return Sweep(widths, made_ceilings())


def test_widths_double_until_a_matrix_is_well_beyond_the_last_cache() -> None:
    assert widths_beyond(2**20) == (192, 384, 768)
    assert 4 * widths_beyond(2**25)[-1] ** 2 >= 2 * 2**25
    assert widths_beyond(2**40)[-1] == 12_288


def test_each_way_is_timed_at_each_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chapter, "widths_beyond", lambda cache: (48, 96))
    found = study_widths(made_ceilings(), at_most_seconds=0.05)
    assert [each.width for each in found.widths] == [48, 96]
    assert all([*each.seconds] == [LOOPS, TILES, REGISTERS, PACKED] for each in found.widths)
    assert found.widest.value == 4 * 96**2
    assert [(each["at"], each["line"]) for each in found.rates[:3]] == [(48, LOOPS), (96, LOOPS), (48, TILES)]


def test_rates_and_what_is_left_of_them_are_told() -> None:
    found = sweep_of(width_of(192, NEAR), width_of(384, NEAR), width_of(768, FAR))
    assert found.narrow_loops.median == pytest.approx(20e9)
    assert found.kept(LOOPS).median == pytest.approx(0.2)
    assert found.kept(TILES).median == pytest.approx(8 / 9)
    assert found.gain(LOOPS, TILES, at=-1).median == pytest.approx(4)
    assert found.gain(LOOPS, TILES, at=0).median == pytest.approx(0.9)
    # The second cache, 1 MiB, is the last whose 45 GFLOP/s are above the 20 of loops; memory comes next, with 4.5.
    paying, measured = found.paying, found.pays_from(matters=0.05)
    assert isinstance(paying, Paying)
    assert isinstance(measured, Derived)
    assert (paying.width.value, measured.value) == (512, 768)
    assert paying.beyond.value == pytest.approx(20 / 4.5)
    assert paying.in_memory.value == pytest.approx(20 / 4.5)
    rows = {row.level: row for row in chapter.caches(made_ceilings())}
    assert (rows["L2"].width, rows["memory"].width) == (512, None)
    assert rows["memory"].bound.value == pytest.approx(4.5e9)


def test_tiles_that_never_pay_are_said_to() -> None:
    assert isinstance(sweep_of(width_of(192, NEAR), width_of(768, NEAR)).pays_from(matters=0.05), Unmeasured)


def test_a_width_at_which_tiles_are_slower_again_is_not_the_first() -> None:
    found = sweep_of(width_of(192, FAR), width_of(384, NEAR), width_of(768, FAR)).pays_from(matters=0.05)
    assert isinstance(found, Derived)
    assert found.value == 768


def test_where_no_level_holds_the_loops_up_nothing_is_predicted() -> None:
    assert isinstance(sweep_of(width_of(192, {**NEAR, LOOPS: 1e9}), width_of(768, FAR)).paying, Unmeasured)


def test_a_nearer_level_that_holds_the_loops_up_is_the_next() -> None:
    found = sweep_of(width_of(192, {**NEAR, LOOPS: 90e9}), width_of(768, FAR)).paying
    assert isinstance(found, Paying)
    assert found.width.value == 90
    assert found.beyond.value == pytest.approx(2)
    assert found.in_memory.value == pytest.approx(20)


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
    found = sweep_of(width_of(192, {**NEAR, TILES: near}), width_of(768, {**FAR, TILES: far}, noise))
    assert found.tiling.verdict == verdict


def test_without_a_matrix_beyond_the_cache_nothing_is_decided() -> None:
    assert sweep_of(width_of(192, NEAR), width_of(384, FAR)).tiling.verdict == "open"
