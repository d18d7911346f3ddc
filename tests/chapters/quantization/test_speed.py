"""What the studies of speed compute on machines that differ, and how they time it."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns, made, run_once
from tests.perf.made_ceilings import made_ceilings
from tests.perf.synthetic_machine import synthetic_ceilings
from tinytorch.chapters.quantization import speed as chapter
from tinytorch.chapters.quantization.speed import OneRow, layer_gain, layer_parts, numpy_slowdown, one_row
from tinytorch.core.activations import GELU
from tinytorch.core.layers import Linear
from tinytorch.core.module import Sequential
from tinytorch.core.op import Implementation
from tinytorch.core.tensor import Tensor
from tinytorch.perf.acceleration.greedy_search import Calls
from tinytorch.perf.kernels.int8.instructions import DOTS, Dot
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.quantization import Plan, QuantizedLinear, Scheme, quantize_model
from tinytorch.perf.roofline.bounds import bandwidth_at


@pytest.mark.parametrize("dot", DOTS, ids=lambda dot: dot.name)
def test_the_word_follows_the_instruction(dot: Dot) -> None:
    machine = replace(synthetic_ceilings(), int8_from=dot.name)
    others = {"multiply": "plain integers", "vpmaddwd": "widened bytes"}
    word = chapter.instruction(machine)
    assert word == others.get(dot.name.partition(" ")[0], "dot product")
    assert isinstance(chapter.with_instruction(machine), Unmeasured) == (word != "dot product")


def test_codes_promise_a_pass_what_amdahls_law_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """What codes replace takes three fifths of a pass and runs three times as fast in codes; the rest stays."""
    model = Sequential(Linear(8, 8, seed=0), GELU(), Linear(8, 8, seed=1))
    again: dict[str, int] = {}

    def replayed(implementation: Implementation, calls: Calls) -> Callable[[], None]:
        again[implementation.name] = len(calls)
        return lambda: None

    def timed(ways: Mapping[str, object], **_: object) -> dict[str, Measurement]:
        assert [*ways] == ["pass", "in float", "in codes"]
        return in_turns({"pass": 5.0, "in float": 3.0, "in codes": 1.0})

    monkeypatch.setattr(chapter, "replayed", replayed)
    monkeypatch.setattr(chapter, "interleave", timed)
    found = chapter.replaced_ops(model, quantize_model(model), Tensor(np.ones((4, 8), np.float32)))
    assert [*again.values()] == [2, 2], "both linear layers, and no GELU"
    assert found.share.median == pytest.approx(0.6)
    assert found.alone.median == pytest.approx(3)
    assert found.predicted.value == pytest.approx(1 / (0.4 + 0.6 / 3))


def test_products_are_timed_in_turns() -> None:
    sides = {side.conditions.interleaved_with for side in numpy_slowdown(16, repeats=6).conditions.sides}
    assert sides == {("float32",), ("int32",)}


#: A layer's parts: what the whole takes, and what two of the three take of it.
PARTS = {"whole": 10.0, "quantize": 2.0, "rescale": 3.0}


def test_a_layer_is_told_with_its_bytes_its_error_and_its_shares_of_the_peaks(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = made_ceilings()
    monkeypatch.setattr("tinytorch.chapters.calls.interleave", run_once({"float32": 3e-6, "quantized": 1e-6}))
    monkeypatch.setattr(chapter, "interleave", run_once(PARTS))
    found = layer_gain(4, 32, 48, machine)
    layer = Linear(32, 48, seed=0)
    # Codes, a scale for each output, and the bias, over weight and bias.
    assert found.stored.value == (32 * 48 + 8 * 48) / (4 * 32 * 48 + 4 * 48)
    x = Tensor(np.random.default_rng(1).standard_normal((4, 32), dtype=np.float32))
    expected, got = layer(x).data, QuantizedLinear(layer, Plan())(x).data
    assert found.error.value == pytest.approx(np.linalg.norm(got - expected) / np.linalg.norm(expected), rel=1e-4)
    work = 2 * 4 * 32 * 48
    assert found.float_share.median == pytest.approx(work / 3e-6 / machine.fp32_peak.median)
    assert found.coded_share.median == pytest.approx(work / 1e-6 / machine.int8_peak.median)
    assert found.speedup.median == pytest.approx(3)


def test_parts_of_a_layer_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[int, int, int]] = []
    forward = QuantizedLinear.forward

    def watched(self: QuantizedLinear, x: Tensor) -> Tensor:
        seen.append((len(x.data), self.in_features, self.out_features))
        return forward(self, x)

    monkeypatch.setattr(QuantizedLinear, "forward", watched)
    monkeypatch.setattr(chapter, "interleave", run_once(PARTS))
    parts = layer_parts(8, 64, 48)
    assert seen == [(8, 64, 48), (8, 64, 16), (8, 16, 48)]
    shares = {name: part.median for name, part in parts.items()}
    assert shares == pytest.approx({"quantize": 0.2, "product": 0.5, "rescale": 0.3})


def test_a_prediction_is_as_uncertain_as_the_bandwidths_that_it_rests_on() -> None:
    machine = synthetic_ceilings(noise=0.1)
    wide, narrow = 4 * 8192**2, 8192**2
    predicted = chapter.streaming_speedup(8192**2, 8, machine)
    expected = wide / narrow * bandwidth_at(narrow, machine).median / bandwidth_at(wide, machine).median
    assert isinstance(predicted, Modelled)
    assert predicted.value == pytest.approx(expected)
    assert predicted.carried is not None
    assert predicted.carried.interval.low < predicted.value < predicted.carried.interval.high


@pytest.mark.parametrize(("mebibytes", "told"), [(0.6, False), (4, False), (5.6, False), (40, False), (256, True)])
def test_nothing_is_predicted_near_a_capacity(mebibytes: float, told: bool) -> None:
    # Caches of 48 KiB, 1 MiB and 32 MiB; codes are a quarter of these floats.
    found = chapter.streaming_speedup(int(mebibytes * 2**18), 8, synthetic_ceilings())
    assert isinstance(found, Modelled) == told


def test_the_tallest_stack_fills_no_cache_with_its_codes() -> None:
    assert chapter.tallest_stack(640, synthetic_ceilings()) == math.ceil(2.2 * 32 * 2**20 / 640**2)
    assert chapter.tallest_stack(2048, synthetic_ceilings()) == 160
    assert chapter.tallest_stack(64, synthetic_ceilings()) == 160, "no stack that a page can hold does"


def row(monkeypatch: pytest.MonkeyPatch, turns: Mapping[str, float]) -> OneRow:
    """Return what is said of stacks of layers that took ``turns``, on a made machine."""
    near = {"8 bits, one layer": 1e-3, "4 bits, one layer": 3e-3}
    monkeypatch.setattr(chapter, "_passes", lambda *_: in_turns({**turns, **near}))
    plans = {"8 bits": Plan("weight-only"), "4 bits": Plan("weight-only", Scheme(4, per="group"))}
    return one_row(256, (1, 3), plans, made_ceilings())


def test_one_row_stands_beside_what_the_ladder_predicts(monkeypatch: pytest.MonkeyPatch) -> None:
    found = row(monkeypatch, {"float32": 8e-3, "8 bits": 2e-3, "4 bits": 4e-3})
    assert [(each.layers.value, each.floats.value, each.weights) for each in found.depths] == [
        (depth, depth * 2**18, name) for depth in (1, 3) for name in ("8 bits", "4 bits")
    ]
    assert found.deep["8 bits"].gain.median == pytest.approx(4)
    assert found.four.median == pytest.approx(0.5)
    far, codes = found.far["8 bits"], 3 * 2**16
    assert far.over_near.median == pytest.approx(2)
    assert far.reading.value == pytest.approx(codes / bandwidth_at(codes, made_ceilings()).median)
    assert far.bits.value == pytest.approx(8 + 2 * 32 / 256), "a scale and a bias for each output"
    assert 0 < far.error.value < found.far["4 bits"].error.value


def test_a_row_passes_growing_stacks_and_one_layer_as_often(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[dict[str, int]] = []

    def passes(stacks: Mapping[str, Sequence[object]], *_: object) -> dict[str, Measurement]:
        seen.append({name: len({*map(id, stack)}) for name, stack in stacks.items()})
        return in_turns(dict.fromkeys(stacks, 1e-3))

    monkeypatch.setattr(chapter, "_passes", passes)
    plans = {"8 bits": Plan("weight-only"), "4 bits": Plan("weight-only", Scheme(4, per="group"))}
    one_row(64, (1, 3), plans, made_ceilings())
    assert seen[0] == {"float32": 1, "8 bits": 1, "4 bits": 1}
    assert seen[1] == {"float32": 3, "8 bits": 3, "4 bits": 3, "8 bits, one layer": 1, "4 bits, one layer": 1}
    one_row(256, (1, 40), plans, made_ceilings())
    enough = math.ceil(4.4 * 2**20 / (4 * 256**2))  # of the last cache, which holds a MiB
    assert (seen[3]["float32"], seen[3]["8 bits"], seen[3]["4 bits"]) == (enough, 40, 40)


@pytest.mark.parametrize(
    ("gain", "noise", "smaller", "bound", "verdict"),
    [
        (4, 0.0, 4.0, Verdict.SUPPORTED, Verdict.SUPPORTED),
        (1.1, 0.0, 4.0, Verdict.SUPPORTED, Verdict.REFUTED),
        (4, 0.0, 2.7, Verdict.SUPPORTED, Verdict.REFUTED),
        (1.5, 0.2, 4.0, Verdict.SUPPORTED, Verdict.OPEN),
        (1.1, 0.0, 4.0, Verdict.OPEN, Verdict.OPEN),
    ],
)
def test_the_edge_gains_four_and_two_where_memory_is_the_limit(
    monkeypatch: pytest.MonkeyPatch, gain: float, noise: float, smaller: float, bound: Verdict, verdict: Verdict
) -> None:
    found = row(monkeypatch, {"float32": 1e-3, "8 bits": 1e-3, "4 bits": 1e-3})
    one = Counted(1, "", "one")
    made_row = replace(
        found,
        deep={"8 bits": replace(found.deep["8 bits"], gain=made(gain, noise=noise))},
        smaller=Counted(smaller, "", "many").over(one, "bytes"),
        is_memory_bound=replace(found.is_memory_bound, verdict=bound),
    )
    assert chapter.quarter_and_half(made_row, bytes_within=0.4, at_least=1.5).verdict is verdict
