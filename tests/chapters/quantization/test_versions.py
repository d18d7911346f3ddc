"""What the studies of whole models in fewer bits compute, on models of a small zoo and on made results."""

import numpy as np
import numpy.typing as npt
import pytest

from tests.perf.quantization.small_zoo import make
from tinytorch import models
from tinytorch.chapters.quantization import versions as chapter
from tinytorch.core.layers import Linear, Sequential
from tinytorch.core.module import Module
from tinytorch.perf.measuring import Unmeasured
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.perf.measuring.measurement import Measurement
from tinytorch.perf.quantization import Plan, Scheme, accuracy_change, paired_accuracy, quantize_model, stored_bytes
from tinytorch.perf.quantization.convert import Sensitivity
from tinytorch.perf.quantization.tradeoff import FLOAT


def quantized(bits: int, per: str = "channel") -> Module:
    return quantize_model(make("mlp"), plan=Plan("weight-only", Scheme(bits, per=per)))  # type: ignore[arg-type]


def right(share: float, examples: int = 1000) -> npt.NDArray[np.bool_]:
    """Return examples of which the first are right."""
    return np.arange(examples) < round(share * examples)


def change(after: float, examples: int = 1000) -> Measurement:
    """Return a change from nine tenths of the examples."""
    return accuracy_change(paired_accuracy(right(0.9, examples), right(after, examples)), "change")


def test_a_version_is_scored_on_the_first_test_examples() -> None:
    model, two = make("mlp"), quantized(2)
    versions = chapter.scored("mlp", model, {"two": two, "same": model}, examples=40)
    found = versions["two"]
    expected, got = (models.held_out_logits(each, "mlp").astype(np.float64)[:40] for each in (model, two))
    assert found.error.value == pytest.approx(np.linalg.norm(got - expected) / np.linalg.norm(expected), rel=1e-5)
    assert found.stored.value == stored_bytes(two) / stored_bytes(model)


def test_calibrations_are_compared_draw_by_draw() -> None:
    model = make("mlp")
    found = chapter.calibrations("mlp", model, {"two": [quantized(2), quantized(2)], "four": [quantized(4)] * 2})
    two, four = found["two"].error.samples, found["four"].error.samples
    expected, got = (models.held_out_logits(each, "mlp") for each in (model, quantized(2)))
    assert two[0] == pytest.approx(np.linalg.norm(got - expected) / np.linalg.norm(expected), rel=1e-5)
    assert chapter.over_draws(found, "two", "four").samples == (two[0] / four[0], two[1] / four[1])


def test_a_change_is_of_each_training(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "trained", lambda name, seed: make(name, seed=seed))
    plan = Plan("static")
    found = chapter.change_over_seeds("mlp", plan, [0, 1])
    seen = models.as_input(models.entry("mlp").data().train_inputs[:256])
    version = quantize_model(make("mlp", seed=1), seen, plan)
    assert found.samples[1] == models.accuracy(version, "mlp") - models.accuracy(make("mlp", seed=1), "mlp")


@pytest.mark.parametrize(
    ("verdicts", "most"),
    [
        (["supported", "supported", "refuted"], "supported"),
        (["refuted", "supported", "refuted"], "refuted"),
        (["supported", "open", "refuted"], "open"),
        (["supported", "refuted"], "refuted"),
    ],
)
def test_most_is_more_than_half(verdicts: list[str], most: str) -> None:
    assert chapter.verdict_of_most([Judgement(Verdict(one)) for one in verdicts]).verdict == most


def test_what_is_trained_is_compared_with_what_was_trained_as_long() -> None:
    model, two = make("mlp"), quantized(2)
    trained = {"retrained": two, "as long": model}
    sides = chapter.all_sides("mlp", model, {"2 bits": two_bits()}, trained, {"retrained": "as long"})
    assert [*sides] == [FLOAT, "2 bits", "retrained", "as long"]
    assert sides["as long"].change.median == 0
    assert sides["retrained"].change.name.endswith("against as long")
    assert sides["2 bits"].share.value == stored_bytes(two) / stored_bytes(model)
    assert sides["2 bits"].smaller.value == stored_bytes(model) / stored_bytes(two)
    rows = chapter.versions_of(sides)
    assert (rows[0].change, rows[1].change) == (None, sides["2 bits"].change)
    points = [*chapter.bits_against_score({"MLP": sides}, {FLOAT: "whole", "2 bits": "coded"})]
    assert [(point.model, point.version) for point in points] == [("MLP", "whole"), ("MLP", "coded")]
    assert points[0].score.interval.low == points[0].score.interval.high == points[0].score.median
    for point in points:
        assert 0 <= point.score.interval.low <= point.score.median <= point.score.interval.high <= 1
    assert chapter.most_lose_less({"MLP": sides}, "as long", 0.9).verdict is Verdict.SUPPORTED


def two_bits() -> Plan:
    return Plan("weight-only", Scheme(2, per="channel"))


@pytest.mark.parametrize(("rounded", "proven"), [(0.5, True), (0.9, False), (0.899, False), (0.95, False)])
def test_nothing_is_recovered_where_nothing_is_proven_lost(rounded: float, proven: bool) -> None:
    assert isinstance(chapter.recovered(change(rounded), change(0.9)), Unmeasured) != proven


def test_what_is_recovered_is_as_uncertain_as_both_changes() -> None:
    found = chapter.recovered_share(change(0.5), change(0.7))
    assert found.median == pytest.approx(0.5)
    alone = [1 - end / -0.4 for end in (change(0.7).interval.low, change(0.7).interval.high)]
    assert found.interval.low < min(alone)
    assert found.interval.high > max(alone)


def test_mixed_versions_are_scored_as_gpts(monkeypatch: pytest.MonkeyPatch) -> None:
    model, two = make("mlp"), quantized(2)
    shares = {id(model): 0.9, id(two): 0.5}
    monkeypatch.setattr(models, "correct", lambda each, name: right(shares[id(each)]) if name == "gpt" else None)
    found = chapter.mixed_versions(model, {0: [], 0.2: ["1"]}, {0: two, 0.2: model}, two)
    assert (found[chapter.FOUR_BITS].kept, found[chapter.FOUR_BITS].score.value) == ("none, in four bits", 0.5)
    assert [(found[share].kept, found[share].count.value) for share in (0, 0.2)] == [("none", 0), ("1", 1)]
    assert found[0].stored.value == stored_bytes(two) / stored_bytes(model)
    assert found[0].score.value == 0.5
    assert found[0].change.median == pytest.approx(-0.4)
    assert chapter.changed(two, model, "gain").median == pytest.approx(0.4)
    assert found[0.2].change.median == 0


def test_layers_keep_their_errors() -> None:
    scan = [Sensitivity("blocks.0", "Linear", 0.5, 900), Sensitivity("head", "Linear", 0.1, 100)]
    assert {name: each.value for name, each in chapter.errors_by_layer(scan).items()} == {"blocks.0": 0.5, "head": 0.1}


def test_the_error_of_weights_is_that_of_all_layers_together() -> None:
    """Two bits have the codes -1, 0 and 1: with the scale 1, 0.4 becomes 0; in a group of its own it comes back."""
    layer = Linear(64, 1)
    layer.weight.data[:32], layer.weight.data[32:] = 1, 0.4
    found = chapter.weight_errors(Sequential(layer), 2)
    assert found["channel"].value == pytest.approx(0.4 / 1.16**0.5)
    assert found["group"].value == pytest.approx(0, abs=1e-6)
