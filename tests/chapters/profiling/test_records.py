"""What the page on profiling would say of results that were made up: each word and verdict, on both of its sides."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from matplotlib.figure import Figure

from tests.chapters.made_places import made_place
from tests.chapters.made_turns import in_turns, said_in
from tests.chapters.made_turns import made as made_result
from tinytorch.chapters.profiling import records as chapter
from tinytorch.chapters.profiling import studies
from tinytorch.chapters.profiling.studies import Grown, StudiedModel
from tinytorch.core import ops
from tinytorch.core.dispatch import apply
from tinytorch.core.tensor import Tensor
from tinytorch.perf.events.array_life import CATEGORIES, MemoryProfile, Step
from tinytorch.perf.events.stream import recording
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.profiling.breakdown import layer_rows, predicted_speedup
from tinytorch.report import Page
from tinytorch.report.figures import subplots
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


def first_calls(slower: tuple[float, float, float], warmed: float = 1.0) -> dict[str, Json]:
    """Return the records of calls of which the first three took so many times as long as later ones."""
    calls = [noisy(times * 1e-3, "s") for times in (*slower, *[1.0] * 27)]
    over = [noisy(times) for times in slower]
    return made(
        lambda page: chapter.record_first_calls(page, calls, noisy(1e-3, "s"), over, made_result(warmed, noise=0.02))
    )


@pytest.mark.parametrize(
    ("slower", "verdict"),
    [((3.0, 2.0, 1.5), "supported"), ((3.0, 2.0, 0.9), "refuted"), ((3.0, 2.0, 1.0), "open")],
)
def test_first_calls_are_slower_if_each_of_the_first_three_is(slower: tuple[float, float, float], verdict: str) -> None:
    found = first_calls(slower)
    assert found["first-runs-slower"]["verdict"] == verdict
    assert found["first-call"]["value"] == pytest.approx(slower[0] * 1e-3)
    assert found["first-over-settled"]["value"] == slower[0]
    assert len(found["first-calls"]["series"][0]["x"]) == 30


@pytest.mark.parametrize(("warmed", "verdict"), [(1.0, "supported"), (1.3, "refuted"), (1.2, "open")])
def test_ten_warm_ups_are_enough_if_later_calls_take_as_long(warmed: float, verdict: str) -> None:
    assert first_calls((3.0, 2.0, 1.5), warmed)["ten-warm-ups"]["verdict"] == verdict


@pytest.mark.parametrize(("steadier", "verdict"), [(1.5, "supported"), (0.8, "refuted"), (1.0, "open")])
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
    three = dict.fromkeys(("mlp", "cnn", "gpt"), held)
    made(lambda page: chapter.record_memory(page, three, three, 1))
    tops = {area.get_label(): area.get_paths()[0].vertices[:, 1].max() for area in axes[0].collections}
    assert tops == {"parameters": 1, "optimizer": 3, "gradients": 4, "activations": 8}  # MiB


def test_conventions_are_set_beside_ours() -> None:
    found = made(lambda page: chapter.record_conventions(page, {"MACs": 50, "ours": 100}, 100))
    assert [cell["relative"]["value"] for cell in found["conventions"]["rows"]] == [0.5, 1.0]


LENGTHS = [128, 256, 512, 1024]


def block_flops(width: int) -> list[dict[str, int]]:
    """Return the FLOPs of a block by op, layer by layer: four projections, two linear layers, two products."""
    return [
        {"linear": 2 * n * (4 * width * width + 2 * 4 * width * width), "self_attention": 2 * 2 * n * n * width}
        for n in LENGTHS
    ]


def test_the_formula_for_twice_the_length_is_that_of_the_layers() -> None:
    found = made(lambda page: chapter.record_growth(page, LENGTHS, block_flops(768), block_flops(96)))
    for row in found["growth"]["rows"]:
        assert row["wide-formula"]["value"] == pytest.approx(row["wide-counted"]["value"])
        assert row["narrow-formula"]["value"] == pytest.approx(row["narrow-counted"]["value"])
    assert [row["doubling"] for row in found["growth"]["rows"]] == ["128 to 256", "256 to 512", "512 to 1,024"]
    assert found["doubling-least"]["value"] == pytest.approx(2.054, abs=1e-3)
    assert found["doubling-most"]["value"] == pytest.approx(2.2)


@pytest.mark.parametrize(("power", "verdict"), [(2, "supported"), (1, "refuted")])
def test_attention_grows_fourfold_if_each_doubling_says_so(power: int, verdict: str) -> None:
    flops = [{"self_attention": n**power} for n in LENGTHS]

    def record(page: Page) -> None:
        chapter.record_growth(page, LENGTHS, block_flops(768), block_flops(96))
        chapter.record_attention_growth(page, flops)

    found = made(record)
    assert found["double-length"]["verdict"] == verdict
    assert found["double-length"]["counted"]
    assert found["attention-doubling"]["value"] == 2**power
    # A million numbers, 768 at each position: 4 n² d over 2 n d².
    positions = 1e6 / 768
    assert found["attention-over-linear"]["value"] == pytest.approx(4 * positions**2 * 768 / (2 * positions * 768**2))
    assert found["attention-thousand"]["verdict"] == "refuted"
    n = found["thousand-positions"]["value"]
    assert 4 * n**2 * 768 / (2 * n * 768**2) == pytest.approx(1000)


def test_layers_are_shown_down_to_the_parts_of_a_block() -> None:
    from tinytorch import models

    with recording() as recorded:
        models.gpt()(models.example("gpt", batch=1))
    rows = layer_rows(recorded.profile, None, timed=True)
    shown = made(lambda page: chapter.record_layers(page, rows))["gpt-layers"]["rows"]
    assert len(shown) == sum(row.depth <= 2 for row in rows) < len(rows)
    assert shown[0]["path"] == "GPT"
    assert any(row["path"].startswith("\u00a0" * 4) for row in shown)
    assert shown[0]["rate"]["value"] == pytest.approx((rows[0].gflops_per_second or 0) * 1e9)


def test_a_training_loop_is_shared_out_and_its_files_are_those_of_the_recording() -> None:
    from tinytorch import models

    model = models.gpt()

    def forward() -> None:
        model(models.example("gpt", batch=1))

    parts = studies.training_shares(forward, repeats=6)
    assert all(sum(of_run) == pytest.approx(1) for of_run in zip(*(one.samples for one in parts.values()), strict=True))
    with Profiler() as recorded:
        forward()
    found = made(lambda page: chapter.record_training(page, recorded, parts))
    assert found["fit-operations"]["value"] == pytest.approx(parts["operations"].median)
    files = found["flames"]["files"]
    assert sum(int(line.rpartition(" ")[2]) for line in files["fit.collapsed.txt"].splitlines()) == (
        recorded.run.end - recorded.run.start
    )
    assert len(json.loads(files["fit.trace.json"])["traceEvents"]) > len(recorded.run.events)


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
    assert said_in(found) == "open"
    assert found["because"] == (
        "of the kinds with a name, linear takes {gpt-linear-share} and attention {gpt-attention-share}"
    )


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [
        ({128: 0.3, 512: 0.35, 1024: 0.4}, "refuted"),
        ({128: 0.3, 512: 0.73, 1024: 0.9}, "supported"),
        ({128: 0.3, 512: 0.78, 1024: 0.9}, "open"),
    ],
)
def test_attention_takes_its_share_if_it_does_at_one_length(shares: Mapping[int, float], verdict: str) -> None:
    found = attention_records(shares)
    assert found["attention-73"]["verdict"] == said_in(found["attention-73-word"]) == verdict
    assert "68.0\u00a0% to 78.0\u00a0%" in found["attention-73"]["evidence"]
    assert found["attention-module-512"]["value"] == pytest.approx(shares[512])
    assert found["attention-core-1024"]["value"] == pytest.approx(shares[1024] / 2)


def attention_records(shares: Mapping[int, float], in_training: float = 0.4) -> dict[str, Json]:
    """Return the records of a module that takes these shares of a block's time."""
    by_length = {n: {"core": noisy(s / 2, "%"), "module": noisy(s, "%")} for n, s in shares.items()}

    def record(page: Page) -> None:
        chapter.record_attention(page, by_length)
        chapter.record_attention_claims(page, by_length, made_result(in_training, "%", noise=0.01))

    return made(record)


def test_the_predicted_shares_are_those_of_the_counts() -> None:
    found = attention_records({128: 0.3, 512: 0.35, 1024: 0.4})
    block = dict(zip(LENGTHS, block_flops(768), strict=True))[512]
    projections = 2 * 512 * 4 * 768 * 768
    share = (block["self_attention"] + projections) / sum(block.values())
    assert found["attention-counted-512"]["value"] == pytest.approx(share) == 0.4
    series = found["attention-share"]["series"]
    assert [one["numbers"][0]["kind"] == "modelled" for one in series] == [False, True, False, True]
    assert chapter.core_share(512, 768) == pytest.approx(block["self_attention"] / sum(block.values()))


@pytest.mark.parametrize(("share", "verdict"), [(0.8, "supported"), (0.5, "refuted"), (0.75, "open")])
def test_bert_spends_its_share_in_attention_if_a_step_does(share: float, verdict: str) -> None:
    found = attention_records({128: 0.3, 512: 0.35, 1024: 0.4}, share)
    assert found["attention-in-bert"]["verdict"] == verdict


@pytest.mark.parametrize(("most", "verdict"), [(0.81, "supported"), (0.57, "refuted")])
def test_attention_takes_most_memory_if_it_does_at_one_length(most: float, verdict: str) -> None:
    found = made(lambda page: chapter.record_attention_memory(page, {128: 0.3, 1024: most}))
    assert found["attention-memory"]["verdict"] == verdict
    assert found["attention-memory-1024"]["value"] == most


@pytest.mark.parametrize(("least", "verdict"), [(0.85, "supported"), (0.5, "refuted"), (0.8, "open")])
def test_a_fifth_takes_most_of_the_time_if_it_does_in_every_model(least: float, verdict: str) -> None:
    busiest = {"mlp": noisy(least, "%"), "cnn": noisy(0.9, "%"), "gpt": noisy(0.9, "%")}
    assert made(lambda page: chapter.record_busiest(page, busiest))["busiest-fifth"]["verdict"] == verdict


@pytest.mark.parametrize(("cnn", "verdict"), [(2e-3, "supported"), (0.5e-3, "refuted"), (1.01e-3, "open")])
def test_architectures_are_in_order_if_they_are_at_every_size(cnn: float, verdict: str) -> None:
    flops = {"mlp": 10, "cnn": 20, "transformer": 30}
    seconds = {
        (name, count): given
        for count, of_cnn in ((64, 2e-3), (256, 2e-3), (1024, cnn))
        for name, given in (("mlp", 1e-3), ("cnn", of_cnn), ("transformer", 9e-3))
    }
    times = in_turns(
        {f"{name} {count}": given for (name, count), given in seconds.items()},
        noise={f"cnn {count}": 0.05 for count in (64, 256, 1024)},
    )
    grown = {count: Grown(flops, {name: times[f"{name} {count}"] for name in flops}) for count in (64, 256, 1024)}
    found = made(lambda page: chapter.record_architectures(page, grown))
    assert found["architecture-order"]["verdict"] == verdict
    assert found["transformer-growth"]["value"] == pytest.approx(1)
    assert found["cnn-over-mlp-1024"]["value"] == pytest.approx(cnn / 1e-3)
    assert len(found["architecture-order"]["numbers"]) == 6
    # 24 n d² + 4 n² d at 1,024 positions over 256, 32 wide.
    blocks = [24 * n * 32**2 + 4 * n**2 * 32 for n in (256, 1024)]
    assert found["block-fourfold"]["value"] == pytest.approx(blocks[1] / blocks[0])
    assert [row["counted"]["value"] for row in found["architectures"]["rows"]] == [1, 1, 1]


@pytest.mark.parametrize(
    ("found_speedup", "word"),
    [(1.3, "they agree"), (2.0, "they disagree"), (0.9, "they disagree"), (1.4, "open")],
)
def test_prediction_and_measurement_agree_within_a_tenth(found_speedup: float, word: str) -> None:
    share = noisy(0.25, "%")
    predicted = predicted_speedup(share, noisy(10), "the law")
    found = made(lambda page: chapter.record_amdahl(page, share, noisy(10), predicted, noisy(found_speedup)))
    assert said_in(found["amdahl-verdict"]) == word
    assert found["amdahl-predicted"]["value"] == pytest.approx(1 / (0.75 + 0.025))
    assert found["amdahl-limit"]["value"] == pytest.approx(4 / 3)
    assert found["amdahl-over"]["value"] == pytest.approx(found_speedup * 0.775)


@pytest.mark.parametrize(("backward", "verdict"), [(200, "supported"), (180, "refuted"), (220, "refuted")])
def test_backward_is_twice_if_the_count_of_the_language_model_is(backward: int, verdict: str) -> None:
    """Whatever the time is: the source speaks of compute."""
    back = dict.fromkeys(STUDIED, noisy(1.3))
    steps = {name: {phase: noisy(1e-3, "s") for phase in ("forward", "backward", "update")} for name in STUDIED}
    counted = {name: {"forward_flops": 100, "backward_flops": 150} for name in STUDIED}
    counted["gpt"]["backward_flops"] = backward
    found = made(lambda page: chapter.record_phases(page, steps, back, counted))
    assert found["backward-twice"]["verdict"] == verdict
    assert found["backward-twice"]["counted"]
    assert found["cnn-back-flops"]["value"] == 1.5
    assert [row["model"] for row in found["phases"]["rows"]] == ["MLP", "CNN", "GPT"]


def memory_records(gradients: int = 100, doubled: int = 800) -> dict[str, Json]:
    """Return the records of three models of which the last has other gradients and activations of twice the batch."""
    other = profile(parameters=100, gradients=100, optimizer=200, activations=400)
    memory = {
        "mlp": other,
        "cnn": other,
        "gpt": profile(parameters=100, gradients=gradients, optimizer=200, activations=400),
    }
    twice = dict.fromkeys(memory, profile(activations=800)) | {"gpt": profile(activations=doubled)}
    return made(lambda page: chapter.record_memory(page, memory, twice, 390))


def test_activations_have_a_share_of_what_a_step_keeps() -> None:
    found = memory_records()
    assert found["gpt-activation-memory"]["value"] == pytest.approx(400 / 800)
    assert (found["hidden-bytes"]["value"], found["mlp-activation-bytes"]["value"]) == (390, 400)
    assert found["memory"]["rows"][0]["doubled"]["value"] == 800


@pytest.mark.parametrize(("gradients", "verdict"), [(100, "supported"), (99, "refuted")])
def test_gradients_take_as_much_as_parameters_to_the_byte(gradients: int, verdict: str) -> None:
    found = memory_records(gradients)["gradients-equal-parameters"]
    assert (found["verdict"], found["counted"]) == (verdict, True)


@pytest.mark.parametrize(("doubled", "verdict"), [(800, "supported"), (803, "supported"), (700, "refuted")])
def test_twice_the_batch_is_twice_the_activations_in_every_model(doubled: int, verdict: str) -> None:
    found = memory_records(doubled=doubled)["doubled-batch"]
    assert (found["verdict"], found["counted"]) == (verdict, True)


def test_rates_follow_a_law_of_two_parts_made_from_two_batches() -> None:
    """A call of 1 ms, 0.5 ms for each example: half of 2,000 a second comes at two. The largest batch is slower."""
    seconds = {batch: together(dict.fromkeys(STUDIED, 1e-3 + 0.5e-3 * batch), "s") for batch in (1, 2)}
    seconds[5] = together(dict.fromkeys(STUDIED, 9e-3), "s")
    found = made(lambda page: chapter.record_throughput(page, seconds))
    assert found["cnn-rate-one"]["value"] == pytest.approx(1 / 1.5e-3)
    assert found["cnn-rate-largest"]["value"] == pytest.approx(5 / 9e-3)
    assert found["gpt-half-batch"]["value"] == pytest.approx(2)
    assert found["gpt-law"]["value"] == pytest.approx(5 / 3.5e-3)
    series = {one["label"]: one for one in found["throughput"]["series"]}
    assert list(series) == ["MLP", "MLP, law", "CNN", "CNN, law", "GPT", "GPT, law"]
    assert series["MLP"]["x"] == series["MLP, law"]["x"] == [1, 2, 5]


def test_without_a_cost_of_calls_there_is_no_law() -> None:
    seconds = {batch: together(dict.fromkeys(STUDIED, 1e-3 * batch**2), "s") for batch in (1, 2, 5)}
    found = made(lambda page: chapter.record_throughput(page, seconds))
    assert {found[f"{name}-{key}"]["kind"] for name in STUDIED for key in ("law", "half-batch")} == {"absent"}
    assert [one["label"] for one in found["throughput"]["series"]] == ["MLP", "CNN", "GPT"]


def test_a_decision_is_worked_out_from_two_batches_and_a_rate() -> None:
    """A standing mebibyte and half of one for each sequence; the bill is the pass of 64, a million over 64 times."""
    mebi = 2**20
    placed = made_place("forward", 10**6, 10**6, 0.9)
    forward = {"latency": placed.seconds, "verdict": placed.verdict}
    peaks = {2: 2 * mebi, 4: 3 * mebi, 8: 6 * mebi}
    seconds = {256: {"gpt": noisy(0.25, "s")}}
    found = made(lambda page: chapter.record_decision(page, forward, peaks, seconds))
    assert found["case-bound"]["word"] == "memory-bound"
    assert found["case-each"]["value"] == mebi / 2
    assert found["case-predicted"]["value"] == 5 * mebi
    assert found["case-peak"]["value"] == 6 * mebi
    assert found["case-fits"]["value"] == 2 * (1024 - 1)
    assert found["case-bill"]["value"] == pytest.approx(found["case-latency"]["value"] * 1e6 / 64)
    assert found["case-wait"]["value"] == 0.25


@pytest.mark.parametrize(
    ("seconds", "word"),
    [
        (8e-3, "in proportion"),
        (16e-3, "more than in proportion"),
        (4e-3, "less than in proportion"),
        (12e-3, "open"),
    ],
)
def test_time_is_in_proportion_to_arithmetic_within_a_factor(seconds: float, word: str) -> None:
    times = in_turns({"mlp": 1e-3, "cnn": seconds, "gpt": 1.0}, noise={"cnn": 0.05})
    shares = {"attention": noisy(0.2, "%")}
    single = Measurement("calls", tuple(float(1 + call) for call in range(1001)), "s")
    found = made(lambda page: chapter.record_answers(page, STUDIED, shares, single, times))
    assert said_in(found["q-cnn-proportion"]) == word
    assert found["q-cnn-time"]["value"] == pytest.approx(seconds / 1e-3)
    assert found["q-attention-limit"]["value"] == pytest.approx(1.25)
    assert found["q-tail"]["value"] == pytest.approx(991 / 501)
    assert found["q-macs"]["value"] == 4500
    assert found["q-ffn"]["value"] == 56_669_184  # twelve times 768 x 3072 + 3072 + 3072 x 768 + 768
    assert found["q-ffn-trained"]["value"] == 4 * found["q-ffn-bytes"]["value"] == 16 * 56_669_184
    assert (found["gpt2-parameters"]["value"], found["gpt2-trained"]["value"]) == (124_439_808, 16 * 124_439_808)
    assert found["gpt2-in-blocks"]["value"] == pytest.approx(12 * (12 * 768**2 + 13 * 768) / 124_439_808)
