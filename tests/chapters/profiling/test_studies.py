"""The experiments of the page on profiling, held against what they must add up to."""

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from tinytorch import models
from tinytorch.chapters.profiling import studies
from tinytorch.chapters.profiling.first_calls import first_calls, over_steady_state, steady_state
from tinytorch.perf.measuring import Measurement, Statistic
from tinytorch.perf.measuring.judge import Verdict, verdict_between
from tinytorch.perf.measuring.statistics import Interval


def test_phases_of_a_step_have_as_many_samples_as_steps_and_train_the_model() -> None:
    model = models.mlp()
    before = [parameter.data.copy() for parameter in model.parameters()]
    found = studies.phases("mlp", batch=4, repeats=6, model=model)
    assert {name: m.n for name, m in found.items()} == {"forward": 6, "backward": 6, "update": 6}
    assert found["forward"].conditions.cpu_per_wall
    assert all(not np.array_equal(a, p.data) for a, p in zip(before, model.parameters(), strict=True))


def test_medians_of_normal_samples_scatter_more_than_means_and_of_wild_ones_less() -> None:
    draw = np.random.default_rng(0)
    normal = studies.spread_of_means_over_medians(list(draw.normal(10, 1, 12_000)))
    assert normal.median == pytest.approx(studies.NORMAL_SPREAD, rel=0.1)
    wild = draw.normal(10, 1, 12_000) + 500 * (draw.random(12_000) < 0.01)
    assert studies.spread_of_means_over_medians(list(wild)).interval.low > 1
    with pytest.raises(ValueError, match="samples"):
        studies.spread_of_means_over_medians([1.0] * 10)


def shifted_blocks(draw: np.random.Generator) -> npt.NDArray[np.float64]:
    """Return noise that shifts blocks as wholes, so that their means and medians move alike."""
    return np.repeat(draw.normal(0, 1, 600), 20) + draw.uniform(-1e-6, 1e-6, 12_000)


@pytest.mark.parametrize(
    ("noise", "verdict"),
    [
        (lambda draw: draw.normal(0, 1, 12_000), "refuted"),
        (lambda draw: draw.laplace(0, 1, 12_000), "supported"),
        (lambda draw: draw.standard_t(2, 12_000), "supported"),
        (shifted_blocks, "open"),
    ],
    ids=["normal", "laplace", "student", "shifted"],
)
def test_the_groups_are_enough_for_a_verdict_on_either_kind_of_noise(
    noise: Callable[[np.random.Generator], npt.NDArray[np.float64]], verdict: Verdict
) -> None:
    spreads = [studies.spread_of_means_over_medians(list(noise(np.random.default_rng(seed)))) for seed in range(20)]
    found = [verdict_between(spread, low=1.0, strict=True).verdict for spread in spreads]
    assert found.count(verdict) >= 18, found


def test_memory_of_a_step_holds_what_the_model_and_adamw_hold() -> None:
    found = studies.training_memory("mlp", batch=8)
    parameters = sum(parameter.nbytes for parameter in models.mlp().parameters())
    assert found.highest["parameters"] == found.highest["gradients"] == parameters
    assert found.highest["optimizer"] == 2 * parameters


def test_activations_are_less_than_half_of_the_mlp_and_more_of_the_gpt_as_the_page_says() -> None:
    for name, most in (("mlp", False), ("gpt", True)):
        highest = studies.training_memory(name, batch=64).highest
        kept = sum(highest[what] for what in ("parameters", "gradients", "optimizer"))
        assert (highest["activations"] > kept) == most


def test_first_calls_come_from_as_many_processes_as_asked() -> None:
    calls = first_calls("mlp", batch=1, calls=4, processes=2)
    assert [call.n for call in calls] == [2, 2, 2, 2]
    assert all(sample > 0 for call in calls for sample in call.samples)
    with pytest.raises(ValueError, match="rnn"):
        first_calls("rnn", 1, 1, 1)
    with pytest.raises(ValueError, match="processes"):
        first_calls("mlp", 1, 1, 0)


def test_settled_calls_are_medians_within_a_process() -> None:
    calls = [Measurement(f"call {i}", (first, first / 10), "s") for i, first in enumerate((30.0, 3.0, 1.0, 2.0))]
    assert steady_state(calls, first=1).samples == pytest.approx((2.0, 0.2))
    assert over_steady_state(calls, 1, 1, first=1).samples == pytest.approx((15.0, 15.0))
    assert over_steady_state(calls, 2, 4, first=1).samples == pytest.approx((1.0, 1.0))
    with pytest.raises(ValueError, match="begin and end must be calls from 1 to 4, not 3 and 5"):
        over_steady_state(calls, 3, 5, first=1)
    with pytest.raises(ValueError, match="first"):
        steady_state(calls, first=4)


def test_a_model_is_studied_on_what_it_has_not_seen() -> None:
    (found,) = studies.studied({"mlp": models.mlp()}).values()
    layers = ((64, 256), (256, 128), (128, 10))
    assert found.parameters == sum(m * n + n for m, n in layers)
    assert found.flops == sum(2 * m * n for m, n in layers)
    assert found.examples == len(models.entry("mlp").data().test_targets)
    assert 0 <= found.score < 0.5  # untrained


def test_shares_of_each_model_are_those_of_its_own_ops() -> None:
    kinds = {"linear": lambda e: e.op == "linear", "convolution": lambda e: e.op == "conv2d"}
    trained = {"mlp": models.mlp().eval(), "cnn": models.cnn().eval()}
    inputs = {name: models.example(name, batch=1) for name in trained}
    found = studies.shares_by_model(trained, inputs, kinds, repeats=1)
    assert found["mlp"]["convolution"].median == 0 < found["mlp"]["linear"].median
    assert found["cnn"]["convolution"].median > 0


def test_between_the_ops_of_one_sequence_and_of_many_passes_some_of_the_time() -> None:
    found = studies.between_ops(models.gpt().eval())
    assert set(found) == {1, 64}
    assert all(0 < share.median < 1 for share in found.values())


def test_architectures_count_what_their_layers_do() -> None:
    """By hand, in multiply-accumulates: layer by layer, and a block of 12 d² N + 2 N² d between its ends."""
    grown = studies.growing_inputs([4, 8])
    assert list(grown) == [16, 64]
    for n, found in grown.items():
        macs = {
            "mlp": 128 * n + 1280,
            "cnn": 9 * 16 * 17 * n + 160 * n,
            "transformer": 12 * 32**2 * n + 2 * 32 * n**2 + (32 + 320) * n,
        }
        assert found.flops == {name: 2 * count for name, count in macs.items()}
        assert all(seconds.median > 0 for seconds in found.seconds.values())


def test_the_busiest_fifth_is_the_largest_of_five_calls() -> None:
    """An MLP makes six calls, two of which are the fifth rounded up: more than a third and less than all."""
    found = studies.busiest_fifth({"mlp": models.mlp().eval()}, {"mlp": models.example("mlp", batch=64)}, repeats=3)
    assert all(2 / 6 <= share < 1 for share in found["mlp"].samples)


def test_memory_of_inference_holds_the_parameters_and_grows_with_the_batch() -> None:
    found = studies.inference_memory("mlp", [64, 256])
    parameters = sum(parameter.nbytes for parameter in models.mlp().parameters())
    hidden = 4 * (256 + 64)  # one input and the widest output of each example are alive at one moment
    assert found[64] >= parameters + 64 * hidden
    assert found[256] - found[64] >= (256 - 64) * hidden


def test_attention_has_a_part_of_a_training_step() -> None:
    share = studies.attention_of_training(length=16, repeats=1)
    assert 0.1 < share.median < 0.9


def seconds(low: float, value: float, high: float) -> Statistic:
    """Return a time with an interval."""
    return Statistic("t", (value,), "s", value=value, bounds=Interval(low, high, 0.95))


def test_the_law_of_two_times_has_the_interval_that_theirs_make() -> None:
    """A call of 1 ms and 0.5 ms for each example; the larger batch is known to a tenth, the smaller one exactly."""
    few, more = (1, seconds(1.5, 1.5, 1.5)), (3, seconds(2.25, 2.5, 2.75))
    half, last = studies.half_batch(few, more), studies.seconds_by_law(few, more, 5)
    assert half is not None
    assert last is not None
    assert [half.median, last.median] == pytest.approx([2, 3.5])
    # A call and an example are 1.125 and 0.375 ms at the one end, and 0.875 and 0.625 at the other.
    assert [half.interval.low, half.interval.high] == pytest.approx([1.4, 3])
    assert [last.interval.low, last.interval.high] == pytest.approx([3, 4])


def test_there_is_no_law_where_an_example_or_a_call_may_take_nothing() -> None:
    few = (1, seconds(1.4, 1.5, 1.6))
    assert studies.half_batch(few, (3, seconds(1.5, 2.0, 2.5))) is None
    assert studies.seconds_by_law(few, (3, seconds(0.5, 2.0, 2.5)), 300) is None
    assert studies.half_batch(few, (3, seconds(4.5, 4.6, 4.7))) is None, "a call that takes less than nothing"
