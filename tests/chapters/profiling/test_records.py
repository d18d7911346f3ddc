"""What the page on profiling would say of results that were made up: each word and verdict, on both of its sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest
from matplotlib.figure import Figure

from tests.chapters.made_turns import in_turns
from tests.chapters.made_turns import made as made_result
from tinytorch.chapters.profiling import records as chapter
from tinytorch.chapters.profiling.studies import StudiedModel
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.array_life import CATEGORIES, MemoryProfile, Step
from tinytorch.perf.events.stream import recording
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.profiling.breakdown import layer_rows, predicted_speedup
from tinytorch.report import Page, subplots
from tinytorch.report.records import Json

STUDIED = {
    "mlp": StudiedModel(100, 1000, 0.97, 200, "test accuracy"),
    "cnn": StudiedModel(200, 8000, 0.98, 200, "test accuracy"),
    "gpt": StudiedModel(300, 9001, 0.99, 500, "exact test sequences"),
}


def made(record: Callable[[Page], None]) -> dict[str, Json]:
    """Return by key what ``record`` adds to a page."""
    page = Page("profiling")
    before = len(page.records)
    record(page)
    return {one.key: one.to_json() for one in page.records[before:]}


def noisy(value: float, unit: str = "") -> Measurement:
    """Return samples whose ends are a twentieth away on each side."""
    return made_result(value, unit, noise=0.05)


def together(values: Mapping[str, float], unit: str) -> dict[str, Measurement]:
    """Return a result for each name, taken in turns with all others."""
    return in_turns(values, unit, noise=dict.fromkeys(values, 0.05))


def profile(**highest: int) -> MemoryProfile:
    """Return the memory of a step of two ops in which each category held at most so many bytes."""
    with recording() as recorded:
        pass
    held = {category: highest.get(category, 0) for category in CATEGORIES}
    steps = tuple(Step(8, 4, 16, tuple(part * held[category] for category in CATEGORIES)) for part in (0, 1))
    return MemoryProfile(recorded.profile, steps, held, held, 100, 50, 120, True)


def test_each_model_has_a_row_with_what_its_numbers_say() -> None:
    found = made(lambda page: chapter.record_models(page, STUDIED))
    assert [key for key in found if key.startswith("gpt-")] == ["gpt-score", "gpt-parameters", "gpt-flops"]
    assert found["gpt-flops"]["value"] == 9001
    assert found["mlp-score"]["what"] == "test accuracy of 200"
    assert [row["model"] for row in found["models"]["rows"]] == ["MLP", "CNN", "GPT"]
    assert found["models"]["rows"][2]["what"] == "exact test sequences, 500 examples"


@pytest.mark.parametrize(("slower", "verdict"), [(3.0, "supported"), (1.0, "refuted"), (1.1, "cannot tell here")])
def test_first_calls_are_slower_if_the_whole_interval_is(slower: float, verdict: str) -> None:
    calls = [noisy(slower * 1e-3, "s"), *[noisy(1e-3, "s")] * 29]
    found = made(lambda page: chapter.record_first_calls(page, calls, noisy(1e-3, "s"), noisy(slower)))
    assert found["first-runs-slower"]["verdict"] == verdict
    assert found["first-call"]["value"] == pytest.approx(slower * 1e-3)
    assert len(found["first-calls"]["series"][0]["x"]) == 30


@pytest.mark.parametrize(("steadier", "verdict"), [(1.5, "supported"), (0.8, "refuted"), (1.0, "cannot tell here")])
def test_the_median_resists_if_means_scatter_more(steadier: float, verdict: str) -> None:
    single = Measurement("calls", tuple(1e-6 * (1 + call) for call in range(1001)), "s")
    found = made(lambda page: chapter.record_scatter(page, single, noisy(steadier)))
    assert found["median-resists"]["verdict"] == verdict
    times = [found[f"single-{name}"]["value"] for name in ("median", "mean", "p99", "worst")]
    assert times == pytest.approx([501e-6, 501e-6, 991e-6, 1001e-6])


def drawn(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Return a list that the axes of each figure of the page are put into."""
    seen: list[Any] = []

    def kept(*sizes: int, **options: Any) -> tuple[Figure, Any]:
        figure, ax = subplots(*sizes, **options)
        seen.append(ax)
        return figure, ax

    monkeypatch.setattr(chapter, "subplots", kept)
    return seen


def test_the_distribution_ends_with_all_calls_at_the_slowest(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = drawn(monkeypatch)
    single = Measurement("calls", tuple(1e-6 * (1001 - call) for call in range(1001)), "s")
    made(lambda page: chapter.record_scatter(page, single, noisy(1.5)))
    (curve,) = axes[0].lines
    assert curve.get_xdata()[[0, -1]] == pytest.approx([1, 1001])  # microseconds
    assert curve.get_ydata()[[0, -1]] == pytest.approx([100 / 1001, 100])


def test_areas_of_memory_stand_on_one_another(monkeypatch: pytest.MonkeyPatch) -> None:
    axes = drawn(monkeypatch)
    held = profile(parameters=2**20, optimizer=2**21, gradients=2**20, activations=2**22)
    made(lambda page: chapter.record_memory(page, dict.fromkeys(("mlp", "cnn", "gpt"), held)))
    tops = {area.get_label(): area.get_paths()[0].vertices[:, 1].max() for area in axes[0].collections}
    assert tops == {"parameters": 1, "optimizer": 3, "gradients": 4, "activations": 8}  # MiB


def test_conventions_are_set_beside_ours() -> None:
    found = made(lambda page: chapter.record_conventions(page, {"MACs": 50, "ours": 100}, 100))
    assert [cell["relative"]["value"] for cell in found["conventions"]["rows"]] == [0.5, 1.0]


@pytest.mark.parametrize(("least", "verdict"), [(3.9, "supported"), (2.05, "refuted")])
def test_twice_the_length_is_four_times_the_work_only_if_every_doubling_is(least: float, verdict: str) -> None:
    found = made(lambda page: chapter.record_growth(page, [4.0, least, 3.95]))
    assert found["double-length"]["verdict"] == verdict
    assert (found["doubling-least"]["value"], found["doubling-most"]["value"]) == (least, 4.0)


def test_layers_are_shown_down_to_the_parts_of_a_block() -> None:
    from tinytorch import models

    with recording() as recorded:
        models.gpt()(models.example("gpt", batch=1))
    rows = layer_rows(recorded.profile, None, timed=True)
    shown = made(lambda page: chapter.record_layers(page, rows))["gpt-layers"]["rows"]
    assert len(shown) == sum(row.depth <= 2 for row in rows) < len(rows)
    assert shown[0]["path"] == "GPT"
    assert any(row["path"].startswith("    ") for row in shown)
    assert shown[0]["rate"]["value"] == pytest.approx((rows[0].gflops_per_second or 0) * 1e9)


def test_a_layer_without_arithmetic_has_no_rate() -> None:
    with recording() as recorded:
        apply(ops.relu, Tensor([1.0]))
    (row,) = made(lambda page: chapter.record_layers(page, layer_rows(recorded.profile, None, timed=True)))[
        "gpt-layers"
    ]["rows"]
    assert row["rate"] is None


def test_the_largest_named_kind_is_called_so_and_the_smallest_have_no_bar() -> None:
    by_model = {
        "mlp": together({"linear": 0.3, "attention": 0.0, "other": 0.7}, "%"),
        "gpt": together({"linear": 0.4, "attention": 0.5, "other": 0.1}, "%"),
    }
    between = {64: noisy(0.1, "%"), 1: noisy(0.4, "%")}
    found = made(lambda page: chapter.record_shares(page, by_model, between))
    assert (found["mlp-largest"]["word"], found["gpt-largest"]["word"]) == ("linear", "attention")
    labels = [series["label"] for series in found["shares"]["series"]]
    assert labels == ["MLP: other", "MLP: linear", "GPT: attention", "GPT: linear", "GPT: other"]
    assert found["mlp-attention-share"]["value"] == 0
    assert (found["between-64"]["value"], found["between-1"]["value"]) == pytest.approx((0.1, 0.4))


def test_no_kind_is_called_the_largest_where_two_may_be() -> None:
    shares = in_turns({"linear": 0.45, "attention": 0.44, "other": 0.11}, "%", noise={"linear": 0.1})
    between = {64: noisy(0.1, "%"), 1: noisy(0.4, "%")}
    found = made(lambda page: chapter.record_shares(page, {"gpt": shares}, between))["gpt-largest"]
    assert found["word"] == "cannot tell here"
    assert found["because"] == (
        "of the kinds with a name, linear takes {gpt-linear-share} and attention {gpt-attention-share}"
    )


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ({128: 0.3, 512: 0.35, 1024: 0.4}, "refuted"),
        ({128: 0.3, 512: 0.73, 1024: 0.9}, "supported"),
        ({128: 0.3, 512: 0.78, 1024: 0.9}, "cannot tell here"),
    ],
)
def test_attention_takes_its_share_if_it_does_at_one_length(shares: Mapping[int, float], verdict: str) -> None:
    by_length = {n: {"core": noisy(s / 2, "%"), "module": noisy(s, "%")} for n, s in shares.items()}
    found = made(lambda page: chapter.record_attention(page, by_length))
    assert found["attention-73"]["verdict"] == found["attention-73-word"]["word"] == verdict
    assert "68.0\u00a0% to 78.0\u00a0%" in found["attention-73"]["evidence"]
    assert found["attention-module-512"]["value"] == pytest.approx(shares[512])
    assert found["attention-core-1024"]["value"] == pytest.approx(shares[1024] / 2)


@pytest.mark.parametrize(
    ("found_speedup", "word"),
    [(1.3, "they agree"), (2.0, "they disagree"), (0.9, "they disagree"), (1.4, "cannot tell here")],
)
def test_prediction_and_measurement_agree_within_a_tenth(found_speedup: float, word: str) -> None:
    share = noisy(0.25, "%")
    predicted = predicted_speedup(share, noisy(10), "the law")
    found = made(lambda page: chapter.record_amdahl(page, share, noisy(10), predicted, noisy(found_speedup)))
    assert found["amdahl-verdict"]["word"] == word
    assert found["amdahl-predicted"]["value"] == pytest.approx(1 / (0.75 + 0.025))
    assert found["amdahl-limit"]["value"] == pytest.approx(4 / 3)
    assert found["amdahl-over"]["value"] == pytest.approx(found_speedup * 0.775)


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [
        ((2.0, 2.0, 2.0), "supported"),
        ((2.0, 3.0, 2.0), "refuted"),
        ((2.0, 2.2, 2.0), "cannot tell here"),
    ],
)
def test_backward_is_twice_if_it_is_for_every_model(ratios: tuple[float, float, float], verdict: str) -> None:
    back = {name: noisy(ratio) for name, ratio in zip(STUDIED, ratios, strict=True)}
    steps = {name: {phase: noisy(1e-3, "s") for phase in ("forward", "backward", "update")} for name in STUDIED}
    counted = {name: {"forward_flops": 100, "backward_flops": 180} for name in STUDIED}
    found = made(lambda page: chapter.record_phases(page, steps, back, counted))
    assert found["backward-twice"]["verdict"] == verdict
    assert found["cnn-back-flops"]["value"] == 1.8
    assert [row["model"] for row in found["phases"]["rows"]] == ["MLP", "CNN", "GPT"]


def memory_records(activations: int, gradients: int = 100) -> dict[str, Json]:
    """Return the records of three models of which the last has other activations and gradients."""
    other = profile(parameters=100, gradients=100, optimizer=200, activations=900)
    memory = {
        "mlp": other,
        "cnn": other,
        "gpt": profile(parameters=100, gradients=gradients, optimizer=200, activations=activations),
    }
    return made(lambda page: chapter.record_memory(page, memory))


@pytest.mark.parametrize(("activations", "verdict"), [(500, "supported"), (300, "refuted")])
def test_activations_dominate_if_they_are_more_than_half_for_every_model(activations: int, verdict: str) -> None:
    found = memory_records(activations)
    assert found["activations-dominate"]["verdict"] == verdict
    assert found["gpt-activation-memory"]["value"] == pytest.approx(activations / (activations + 400))
    assert found["memory"]["rows"][0]["peak"]["value"] == 150


@pytest.mark.parametrize(("gradients", "verdict"), [(100, "supported"), (99, "refuted")])
def test_gradients_take_as_much_as_parameters_to_the_byte(gradients: int, verdict: str) -> None:
    assert memory_records(500, gradients)["gradients-equal-parameters"]["verdict"] == verdict


def test_rates_are_told_of_one_example_and_of_the_largest_batch() -> None:
    seconds = {batch: together(dict.fromkeys(STUDIED, time), "s") for batch, time in ((1, 1e-3), (2, 1e-3), (4, 4e-3))}
    found = made(lambda page: chapter.record_throughput(page, seconds))
    assert found["cnn-rate-largest"]["value"] == found["cnn-rate-one"]["value"] == pytest.approx(1000)
    assert [series["label"] for series in found["throughput"]["series"]] == ["MLP", "CNN", "GPT"]
    assert found["throughput"]["series"][0]["x"] == [1, 2, 4]


@pytest.mark.parametrize(
    ("seconds", "word"),
    [
        (8e-3, "in proportion"),
        (16e-3, "more than in proportion"),
        (4e-3, "less than in proportion"),
        (10e-3, "cannot tell here"),
    ],
)
def test_time_is_in_proportion_to_arithmetic_within_a_quarter(seconds: float, word: str) -> None:
    times = in_turns({"mlp": 1e-3, "cnn": seconds, "gpt": 1.0}, noise={"cnn": 0.05})
    shares = {"attention": noisy(0.2, "%")}
    single = Measurement("calls", tuple(float(1 + call) for call in range(1001)), "s")
    memory = profile(parameters=100, optimizer=200)
    found = made(lambda page: chapter.record_answers(page, STUDIED, shares, single, times, memory))
    assert found["q-cnn-proportion"]["word"] == word
    assert found["q-cnn-time"]["value"] == pytest.approx(seconds / 1e-3)
    assert found["q-attention-limit"]["value"] == pytest.approx(1.25)
    assert found["q-tail"]["value"] == pytest.approx(991 / 501)
    assert (found["q-macs"]["value"], found["q-adam"]["value"]) == (4500, 200)
