"""What an expression costs, against what can be counted by hand, and what the page says of it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns, records
from tests.perf.made_ceilings import made_ceilings
from tinytorch.chapters.whole_model import expressions as chapter
from tinytorch.chapters.whole_model.expressions import (
    EXPRESSIONS,
    Expression,
    gelu_in_blocks,
    passes_bytes,
    power_cliff,
    study_expressions,
)
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.report import Page
from tinytorch.report.records import Json


@pytest.mark.parametrize("name", EXPRESSIONS)
@pytest.mark.parametrize("shape", [(0,), (3, 5), (40_000,)])
def test_each_way_to_write_it_is_gelu(name: str, shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).normal(0, 3, shape).astype(np.float32)
    before, wide = x.copy(), x.astype(np.float64)
    exact = 0.5 * wide * (1 + np.tanh(math.sqrt(2 / math.pi) * (wide + 0.044715 * wide**3)))
    found = EXPRESSIONS[name](x)
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, exact, rtol=0, atol=3e-6)
    assert np.array_equal(x, before)


def test_passes_are_counted_operand_by_operand() -> None:
    x = np.ones(1000, np.float32)
    assert passes_bytes(lambda x: x + x, x) == 3 * 4000
    assert passes_bytes(lambda x: x + np.float32(1), x) == 2 * 4000
    assert passes_bytes(lambda x: np.tanh(x * 2, out=np.empty(1000, np.float32)), x) == 4 * 4000
    # Nine operators, two with two arrays as operands besides x * x and (x * x) * x: 9 results and 13 operands.
    assert passes_bytes(EXPRESSIONS["line"], x) == (9 + 13) * 4000


def test_temporaries_are_what_is_alive_beyond_the_result() -> None:
    shape = (500, 1000)
    found = {each.name: each for each in study_expressions(shape, repeats=6, at_most_seconds=0.1)}
    size = 4 * math.prod(shape)
    assert all(each.result_bytes == size for each in found.values())
    # While tanh runs, half of x, its operand and its result are alive; more where NumPy reuses no temporary.
    assert found["line"].temporary_bytes >= 2 * size
    assert found["in place"].temporary_bytes == pytest.approx(0, abs=0.01 * size)
    assert 0 < found["in blocks"].temporary_bytes < 0.1 * size
    assert all(each.page_faults >= 0 and each.seconds.unit == "s" for each in found.values())


def test_bad_input_is_refused() -> None:
    with pytest.raises(ValueError, match="size must be at least 1"):
        power_cliff(0)
    with pytest.raises(ValueError, match="block must be at least 1"):
        gelu_in_blocks(np.ones(3, np.float32), 0)


def test_the_cliff_has_four_sides() -> None:
    assert len(power_cliff(100, repeats=6)) == 4


#: Seconds of each way, and what its operators read and write of an array of a million bytes.
SECONDS = {"steps": 12.0, "line": 10.0, "in place": 8.0, "in blocks": 5.0, "fused": 4.0}
MOVED = {"steps": 22, "line": 22, "in place": 19, "in blocks": 190, "fused": 0}
CLIFF = {"x**3, positive": 20.0, "x*x*x, positive": 2.0, "x**3, negative": 60.0, "x*x*x, negative": 2.0}
SIZE = 1_000_000


def costs(
    seconds: Mapping[str, float], moved: Mapping[str, int], noise: Mapping[str, float], peak: int = 3 * SIZE
) -> list[Expression]:
    made = []
    for name, each in in_turns(seconds, noise=noise).items():
        conditions = replace(each.conditions, page_faults_per_call=1000.0)
        held = SIZE - 7 if name == "fused" else peak
        made.append(Expression(name, Measurement(name, each.samples, "s", conditions), held, SIZE, moved[name] * SIZE))
    return made


def said_of(
    seconds: Mapping[str, float] | None = None,
    moved: Mapping[str, int] | None = None,
    noise: Mapping[str, float] | None = None,
    peak: int = 3 * SIZE,
) -> dict[str, Json]:
    """Return what the page says of made costs, which differ from the usual ones by what is given."""
    page = Page("whole_model")
    ways = costs({**SECONDS, **(seconds or {})}, {**MOVED, **(moved or {})}, noise or {}, peak)
    chapter.record_expressions(page, ways, made_ceilings())
    chapter.claim_fusion(page, ways)
    return records(page)


def test_numbers_are_ratios_of_what_was_measured() -> None:
    said = said_of()
    value = {key: record.get("value") for key, record in said.items()}
    assert (value["one-line"], value["line-gain"]) == (pytest.approx(1.2), 2.5)
    assert said["one-line-verdict"]["word"] == "faster"
    assert (value["in-place-gain"], value["blocks-gain"], value["fused-gain"]) == (1.25, 2, 1.25)
    assert (value["moved-line"], value["moved-least"]) == (22 * SIZE, 2 * SIZE)
    assert value["moved-ratio"] == 11
    # The made memory copies 10 GB a second.
    assert (value["predicted-line"], value["predicted-fused"]) == (pytest.approx(2.2e-3), pytest.approx(2e-4))
    assert value["fault-share"] == pytest.approx(1000 * 1e-7 / 10)
    rows = {row["way"]: row for row in said["expressions"]["rows"]}
    assert rows["in blocks"]["far"]["value"] == rows["one compiled pass"]["far"]["value"] == 2 * SIZE
    assert rows["in place"]["far"]["value"] == 19 * SIZE
    assert rows["one compiled pass"]["beyond"]["value"] == 0, "less than its result at the worst moment is nothing"
    assert rows["step by step"]["beyond"]["value"] == 2 * SIZE
    assert 0 < said["fused-error"]["value"] < 1e-6


def test_the_baseline_is_the_better_of_numpys_ways() -> None:
    assert said_of({"in place": 4.4})["fused-gain"]["value"] == pytest.approx(1.1)


@pytest.mark.parametrize(("line", "tree"), [(22, "refuted"), (4, "refuted"), (2, "supported")])
def test_a_tree_is_optimized_if_a_line_moves_little_more_than_one_pass(line: int, tree: str) -> None:
    assert said_of(moved={"line": line})["expression-tree"]["verdict"] == tree


@pytest.mark.parametrize(("peak", "verdict"), [(3 * SIZE, "refuted"), (SIZE + 100, "supported")])
def test_no_temporary_means_less_than_half_an_array(peak: int, verdict: str) -> None:
    assert said_of(peak=peak)["no-temporaries"]["verdict"] == verdict


@pytest.mark.parametrize(
    ("steps", "noise", "verdict"),
    [(25.0, 0.0, "supported"), (11.0, 0.0, "refuted"), (40.0, 0.0, "refuted"), (20.0, 0.2, "open")],
)
def test_fusion_in_one_line_is_judged_between_two_and_three(steps: float, noise: float, verdict: str) -> None:
    said = said_of({"steps": steps}, noise={"steps": noise})
    assert said["fusion-throughput"]["verdict"] == verdict


def test_what_is_counted_is_said_to_be() -> None:
    said = said_of()
    counted = {key for key, record in said.items() if record["kind"] == "claim" and record["counted"]}
    assert counted == {"expression-tree", "no-temporaries", "course-sixty"}
    assert (said["course-saving"]["value"], said["course-sixty"]["verdict"]) == (pytest.approx(0.4), "refuted")


def test_a_power_is_compared_with_two_products_of_either_sign() -> None:
    page = Page("whole_model")
    chapter.record_cliff(page, in_turns(CLIFF))
    said = records(page)
    assert (said["cliff-negative"]["value"], said["cliff-positive"]["value"]) == (30, 10)


def test_a_way_without_page_faults_spends_no_time_in_them() -> None:
    conditions = Conditions(page_faults_per_call=0.0)
    none = Expression("fused", Measurement("fused", (1.0,) * 7, "s", conditions), SIZE, SIZE, 0)
    assert chapter._faulting(none, made_ceilings()).median == 0
