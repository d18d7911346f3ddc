"""What the page says of its model's counts, kinds, techniques and plan, with made results and the model itself."""

from __future__ import annotations

import pytest

from tests.chapters.made_places import made_place
from tests.chapters.made_turns import in_turns, made, records, said_in
from tests.perf.made_ceilings import made_ceilings
from tinytorch.chapters import your_model as chapter
from tinytorch.chapters.your_model import verdicts
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.plans import plan
from tinytorch.perf.acceleration.techniques import BASELINE, CODES, FUSED, KERNELS, Tried, forward_pass
from tinytorch.perf.measuring import Counted
from tinytorch.perf.measuring.comparison import compare_all
from tinytorch.perf.onnx import OnnxModel, from_onnx
from tinytorch.perf.roofline.bounds import Bottleneck
from tinytorch.report import Page
from tinytorch.report.records import Json


@pytest.fixture(scope="module")
def model() -> OnnxModel:
    return from_onnx(chapter.FILE)


@pytest.fixture(scope="module")
def six() -> Tensor:
    return Tensor(chapter.lines()[: chapter.LINES])


def test_nodes_are_constants_operations_or_settled(model: OnnxModel, six: Tensor) -> None:
    page = Page("your_model")
    verdicts.record_read(page, model, six)
    said = {key: each["value"] for key, each in records(page).items() if "value" in each}
    assert said["nodes"] == said["constants"] + said["operations"] + said["settled"]
    assert said["first-flops"] == 2 * 9 * 3 * 8 * 24 * 96 * 6
    # Input, weights, and eight maps of 24 by 96.
    assert said["first-bytes"] == 4 * (6 * 3 * 48 * 192 + 8 * 3 * 9 + 6 * 8 * 24 * 96)


def test_kinds_are_told_by_their_weights(model: OnnxModel, six: Tensor) -> None:
    machine = made_ceilings()
    kinds = chapter.place_kinds(model, six, machine, repeats=1)
    assert set(kinds) == {
        verdicts.FIRST, verdicts.POINTWISE, verdicts.DEPTHWISE, "normalization", "pooling", "element by element",
        "the last layer",
    }  # fmt: skip
    calls = [kinds[name].demand.calls for name in (verdicts.FIRST, verdicts.POINTWISE, verdicts.DEPTHWISE)]
    assert calls == [1, 41, 11]
    page = Page("your_model")
    chapter.show_counts(page, kinds)
    chapter.record_kinds(page, forward_pass(model, six), kinds, machine, repeats=1)
    said = records(page)
    assert 0 < said["depthwise-share"]["value"] < said["conv-share"]["value"] < 1
    assert len(said["kinds"]["rows"]) == 7
    # What others disturb, they disturb in the sentence as in the table: a share says how much of a core there was.
    for key in ("pointwise", "depthwise", "each"):
        assert said[f"bound-{key}"]["numbers"] == [f"of-roof-{key}", f"{key}-share"]
        assert "cpu_per_wall" in said[f"{key}-share"]["conditions"]


def test_a_pass_has_three_times_and_a_word() -> None:
    page = Page("your_model")
    chapter.record_pass(page, made_place("six lines", 10**9, 10**6, 0.9, Bottleneck.COMPUTE))
    said = records(page)
    assert said["bound"]["word"] == "compute-bound"
    assert said["alone-arithmetic"]["value"] > said["alone-bytes"]["value"]


def said_of(seconds: dict[str, float]) -> dict[str, Json]:
    times = in_turns(seconds, noise=dict.fromkeys(seconds, 1e-6))
    gained = compare_all(times[BASELINE], *[times[name] for name in seconds if name != BASELINE], matters=0.05)
    held = {name: Counted(50 if name == CODES else 100, "B", name) for name in seconds}
    errors = {name: Counted(0.01, "%", name) for name in seconds}
    built = {name: made(0.1, "s") for name in (FUSED, CODES)}
    page = Page("your_model")
    right = {BASELINE: 30, KERNELS: 30, FUSED: 30, CODES: 28}
    chapter.record_techniques(page, Tried("six lines", times, gained, held, errors, built), right)
    chapter.record_answers(page, right)
    return records(page)


@pytest.mark.parametrize(
    ("plan_seconds", "fastest", "verdict"), [(1.0, FUSED, "faster"), (9.0, KERNELS, "slower"), (2.0, None, "faster")]
)
def test_the_fastest_technique_is_proven(plan_seconds: float, fastest: str | None, verdict: str) -> None:
    said = said_of({BASELINE: 4.0, KERNELS: 2.0, FUSED: plan_seconds, CODES: 5.0})
    assert said["fastest"]["word"] == (fastest or f"{KERNELS} or {FUSED}")
    assert said_in(said["plan-gain-verdict"]) == verdict
    assert said["codes-saved"]["value"] == 2
    assert (said["lines"]["value"], said["right"]["value"], said["right-codes"]["value"]) == (30, 30, 28)


def test_without_a_gain_none_is_the_fastest() -> None:
    assert said_of({BASELINE: 1.0, KERNELS: 2.0, FUSED: 2.0, CODES: 2.0})["fastest"]["word"] == "none"


def test_a_plan_answers_the_questions(model: OnnxModel, six: Tensor) -> None:
    page = Page("your_model")
    chapter.record_remains(page, plan(model, six), six, made_place("six", 10**9, 10**6, 0.5), made(1.0, "s"))
    said = records(page)
    assert 0 < said["plan-conv"]["value"] < 1
    assert said["q-limit"]["value"] == pytest.approx(1 / (1 - said["plan-conv"]["value"]))
    assert said["q-depthwise"]["value"] == 25 / 4
    assert said["q-swish"]["value"] == 4.5
