"""What an expression costs, against what can be counted by hand, and what the page says of it."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from tinytorch.chapters.acceleration.expressions import (
    EXPRESSIONS,
    Expression,
    gelu_in_blocks,
    passes_bytes,
    power_cliff,
    study_expressions,
)

from tests.chapters.made_turns import in_turns, records
from tests.perf.made_ceilings import made_ceilings, placed
from tinytorch.chapters.acceleration import expressions as chapter
from tinytorch.perf.measuring import Measurement
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
    assert passes_bytes(EXPRESSIONS["x*x*x"], x) == (9 + 13) * 4000


def test_temporaries_are_what_is_alive_beyond_the_result() -> None:
    shape = (500, 1000)
    found = {each.name: each for each in study_expressions(shape, repeats=6, at_most_seconds=0.1)}
    size = 4 * math.prod(shape)
    assert all(each.result_bytes == size for each in found.values())
    # While tanh runs, half of x, its operand and its result are alive; more where NumPy reuses no temporary.
    assert found["x*x*x"].temporary_bytes >= 2 * size
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
SECONDS = {"steps": 12.0, "x**3": 40.0, "x*x*x": 10.0, "in place": 8.0, "in blocks": 5.0, "fused": 4.0}
MOVED = {"steps": 22, "x**3": 20, "x*x*x": 22, "in place": 19, "in blocks": 190, "fused": 0}
CLIFF = {"x**3, positive": 20.0, "x*x*x, positive": 2.0, "x**3, negative": 60.0, "x*x*x, negative": 2.0}
SIZE = 1_000_000


def costs(seconds: Mapping[str, float], moved: Mapping[str, int], noise: float) -> list[Expression]:
    made = []
    for name, each in in_turns(seconds, noise={"fused": noise}).items():
        how = {**each.how, "minor_page_faults_per_call": 1000.0}
        peak = SIZE - 7 if name == "fused" else 3 * SIZE
        made.append(Expression(name, Measurement(name, each.samples, "s", how), peak, SIZE, moved[name] * SIZE))
    return made


def said_of(
    seconds: Mapping[str, float] | None = None,
    moved: Mapping[str, int] | None = None,
    cliff: Mapping[str, float] | None = None,
    noise: float = 0.0,
) -> dict[str, Json]:
    """Return what the page says of made costs, which differ from the usual ones by what is given."""
    page = Page("acceleration")
    ways = costs({**SECONDS, **(seconds or {})}, {**MOVED, **(moved or {})}, noise)
    chapter.record_expressions(page, ways, in_turns({**CLIFF, **(cliff or {})}), made_ceilings())
    return records(page)


def test_numbers_are_ratios_of_what_was_measured() -> None:
    said = said_of()
    value = {key: record.get("value") for key, record in said.items()}
    assert (value["one-line"], value["fused-gain"], value["fused-gain-power"]) == (pytest.approx(1.2), 2.5, 10)
    assert said["one-line-verdict"]["word"] == "faster"
    assert (value["in-place-gain"], value["blocks-gain"]) == (1.25, 2)
    assert (value["moved-line"], value["moved-least"]) == (22 * SIZE, 2 * SIZE)
    assert (value["moved-ratio"], value["saved-traffic"]) == (11, pytest.approx(1 - 2 / 22))
    assert (value["cliff-negative"], value["cliff-positive"]) == (30, 10)
    assert value["fused-beyond"] == 0, "less than its result at the worst moment is nothing beyond it"
    assert value["line-faults"] == 1000
    assert value["fault-share"] == pytest.approx(1000 * 1e-7 / 10)
    assert value["course-saving"] == pytest.approx(0.4)
    rows = {row["way"]: row for row in said["expressions"]["rows"]}
    assert rows["in blocks"]["moved"]["value"] == rows["in place"]["moved"]["value"] == 19 * SIZE
    assert rows["one compiled pass"]["moved"]["value"] == 2 * SIZE
    assert rows["step by step"]["beyond"]["value"] == 2 * SIZE
    assert rows["step by step"]["faulting"]["value"] == pytest.approx(1000 * 1e-7 / 12)


@pytest.mark.parametrize(("line", "tree"), [(22, "refuted"), (4, "refuted"), (2, "supported")])
def test_a_tree_is_optimized_if_a_line_moves_little_more_than_one_pass(line: int, tree: str) -> None:
    assert said_of(moved={"x*x*x": line})["expression-tree"]["verdict"] == tree


@pytest.mark.parametrize(("line", "saved"), [(22, "refuted"), (6, "supported"), (4, "refuted")])
def test_sixty_to_eighty_per_cent_follow_from_the_number_of_operators(line: int, saved: str) -> None:
    assert said_of(moved={"x*x*x": line})["fusion-traffic"]["verdict"] == saved


@pytest.mark.parametrize(
    ("fused", "noise", "verdict"),
    [(4.0, 0.0, "supported"), (1.0, 0.0, "refuted"), (8.0, 0.0, "refuted"), (5.0, 0.1, "cannot tell here")],
)
def test_fusion_is_judged_between_two_and_three(fused: float, noise: float, verdict: str) -> None:
    said = said_of({"fused": fused}, noise=noise)
    assert said["fusion-throughput"]["verdict"] == verdict


@pytest.mark.parametrize(("negative", "word"), [(60.0, "slower"), (10.0, "faster")])
def test_the_power_of_negative_numbers_is_compared_with_that_of_positive_ones(negative: float, word: str) -> None:
    said = said_of(cliff={"x**3, negative": negative})
    assert said["cliff-sign"]["value"] == pytest.approx(20 / negative)
    assert said["cliff-sign-verdict"]["word"] == word


def test_a_way_without_page_faults_spends_no_time_in_them() -> None:
    how = {"minor_page_faults_per_call": 0.0}
    none = Expression("fused", Measurement("fused", (1.0,) * 7, "s", how), SIZE, SIZE, 0)
    assert chapter._faulting(none, made_ceilings()).median == 0


def test_the_roof_names_each_operation_twice() -> None:
    plain = [placed(name, rows, 0.2) for name, rows in (("GELU", 1), ("softmax", 8), ("norm", 999))]
    kernels = [placed(name, rows, 0.8) for name, rows in (("GELU", 1), ("softmax", 8), ("norm", 999))]
    page = Page("acceleration")
    chapter.record_roof(page, plain, kernels, made_ceilings(noise=0.05))
    said = records(page)
    assert [row["name"] for row in said["roof"]["rows"]] == ["GELU", "GELU", "softmax", "softmax", "norm", "norm"]
    for key, kernel in zip(("gelu", "softmax", "layer-norm"), kernels, strict=True):
        assert said[f"roof-{key}-numpy"]["value"] == pytest.approx(0.2)
        assert said[f"roof-{key}-kernel"]["value"] == pytest.approx(0.8)
        assert said[f"bound-{key}"]["word"] == kernel.verdict.sentence_word
    assert {series["variant"] for series in said["roof-lines"]["series"]} >= {"numpy", "compiled"}
