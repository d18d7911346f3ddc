"""The experiments of the page on profiling, held against what they must add up to."""

from collections import Counter
from collections.abc import Callable, Mapping

import numpy as np
import pytest

from tests.chapters.made_turns import in_turns, made
from tinytorch import models
from tinytorch.chapters.profiling import studies
from tinytorch.perf.events.stream import Event, recording
from tinytorch.perf.measuring import Counted, Measurement, Modelled, Unmeasured
from tinytorch.perf.measuring.judge import Verdict
from tinytorch.perf.measuring.statistics import Stated


def test_medians_of_normal_samples_scatter_more_than_means_by_what_the_formula_says() -> None:
    normal = studies.spread_of_means_over_medians(list(np.random.default_rng(0).normal(10, 1, 12_000)))
    assert normal.median == pytest.approx(studies.NORMAL_SPREAD.value, rel=0.1)


def test_the_tail_of_single_calls_is_held_against_their_median() -> None:
    calls = Measurement("calls", tuple(float(1 + call) for call in range(1001)), "s")
    assert studies.tail_over_median(calls).value == pytest.approx(991 / 501)


def test_a_training_loop_is_shared_out_as_a_whole() -> None:
    model = models.gpt()
    parts = studies.training_shares(lambda: model(models.example("gpt", batch=1)), repeats=6)
    assert list(parts) == ["operations", "between", "unnamed"]
    assert all(sum(of_run) == pytest.approx(1) for of_run in zip(*(one.samples for one in parts.values()), strict=True))


def test_shares_of_each_model_are_those_of_its_own_ops() -> None:
    kinds = {"linear": lambda e: e.op == "linear", "convolution": lambda e: e.op == "conv2d"}
    trained = {"mlp": models.mlp().eval(), "cnn": models.cnn().eval()}
    inputs = {name: models.example(name, batch=1) for name in trained}
    found = studies.shares_by_model(trained, inputs, kinds, repeats=1)
    assert found["mlp"]["convolution"].median == 0 < found["mlp"]["linear"].median
    assert found["cnn"]["convolution"].median > 0


def test_between_the_ops_of_one_sequence_and_of_many_passes_some_of_the_time() -> None:
    found = studies.between_ops(models.gpt().eval())
    assert {batch: 0 < share.median < 1 for batch, share in found.items()} == {1: True, 64: True}


def test_kinds_are_shown_by_size_and_the_largest_with_a_name_is_told_where_it_is_proven() -> None:
    by_model = {
        "mlp": in_turns({"linear": 0.3, "attention": 0.0, "other": 0.7}, "%"),
        "gpt": in_turns({"linear": 0.45, "attention": 0.44, "other": 0.11}, "%", noise={"linear": 0.1}),
    }
    labels = [each["label"] for each in studies.shown_shares(by_model, above=0.01)]
    assert labels == ["MLP: other", "MLP: linear", "GPT: linear", "GPT: attention", "GPT: other"]
    found = studies.largest_kinds(by_model)
    assert (str(found["mlp"]), found["gpt"].verdict) == ("linear", Verdict.OPEN)


def test_phases_and_counts_make_a_step() -> None:
    steps = {"gpt": {phase: made(1e-3, "s") for phase in ("forward", "backward", "update")}}
    found = studies.training_steps(steps, {"gpt": made(1.3)}, {"gpt": {"forward_flops": 100, "backward_flops": 150}})
    assert (found["gpt"].label, found["gpt"].flops.value, found["gpt"].ratio.median) == ("GPT", 1.5, 1.3)


@pytest.mark.parametrize(
    ("shares", "verdict"),
    [((0.3, 0.35, 0.4), "refuted"), ((0.8, 0.85, 0.9), "refuted"), ((0.3, 0.5, 0.9), "supported")],
)
def test_attention_takes_a_share_if_it_passes_through_it(shares: tuple[float, ...], verdict: Verdict) -> None:
    by_length = {n: made(share, "%", noise=0.05) for n, share in zip((128, 512, 1024), shares, strict=True)}
    assert studies.passes_through(by_length, 0.73).verdict == verdict
    found = studies.attention_shares({128: by_length})
    assert [each["ratio"] for each in found] == [1, 4, 8]
    assert [each["time"].median for each in found] == pytest.approx(shares)
    assert [each["arithmetic"].value for each in found] == pytest.approx([3 / 7, 6 / 10, 10 / 14])


def test_what_looking_costs_a_second_program_follows_from_the_first() -> None:
    """Six ops of 1 us each become 4 us each; the second program's twelve take 12 us and 36 more."""
    programs = {
        name: studies.Program(models.mlp().eval(), models.example("mlp", 1), n) for n, name in ((1, "a"), (2, "b"))
    }
    looking = {
        "a": in_turns({"alone": 6e-6, "traced": 24e-6, "sampled": 6.6e-6}),
        "b": in_turns({"alone": 12e-6, "traced": 60e-6, "sampled": 12e-6}),
    }
    found = studies.slowed_by_looking(looking, {"a": "A", "b": "B"}, programs)
    assert [each.each.median for each in found.values()] == pytest.approx([1e-6, 1e-6])
    assert [each.traced.median for each in found.values()] == pytest.approx([4, 5])
    assert [each.sampled.median for each in found.values()] == pytest.approx([1.1, 1])
    assert [each.recording.median for each in found.values()] == pytest.approx([3e-6, 4e-6])
    assert [each.predicted.value for each in found.values()] == pytest.approx([4, 4])
    assert found["a"].compared.verdict == Verdict.FASTER


def test_models_are_compared_with_the_one_before() -> None:
    found = studies.order_of_models(in_turns({"mlp": 1e-3, "cnn": 3e-3, "gpt": 6e-3}))
    assert {name: each.median for name, each in found.items()} == pytest.approx({"cnn": 3, "gpt": 2})


def test_the_busiest_fifth_is_the_largest_of_five_calls() -> None:
    """An MLP makes six calls, two of which are the fifth rounded up: more than a third and less than all."""
    found = studies.busiest_fifth({"mlp": models.mlp().eval()}, {"mlp": models.example("mlp", batch=64)}, repeats=3)
    assert all(2 / 6 <= share < 1 for share in found["mlp"].samples)


def test_the_attention_of_a_training_step_is_that_of_its_ops_in_both_phases(monkeypatch: pytest.MonkeyPatch) -> None:
    def shares(step: Callable[[], object], kinds: Mapping[str, Callable[[Event], bool]], repeats: int) -> object:
        with recording() as recorded:
            step()
        chosen = Counter((event.op, event.phase) for event in recorded.profile.events if kinds["module"](event))
        ops = {"linear": 2, "self_attention": 1}  # queries, keys and values at once, and the projection
        assert chosen == {(op, phase): count for op, count in ops.items() for phase in ("forward", "backward")}
        return {"module": repeats}

    monkeypatch.setattr(studies, "shares", shares)
    found: object = studies.attention_of_training(length=2, repeats=7)
    assert found == 7


def seconds(low: float, value: float, high: float) -> Measurement:
    """Return a time with an interval."""
    return Measurement("t", (value,), "s", law=Stated(value, low, high, 0.95))


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


def test_rates_follow_a_law_of_two_parts_made_from_two_batches() -> None:
    """A call of 1 ms, 0.5 ms for each example: half of 2,000 a second comes at two. The largest batch is slower."""
    times = {batch: in_turns({"gpt": ms * 1e-3}, noise={"gpt": 0.05}) for batch, ms in ((1, 1.5), (2, 2), (5, 9))}
    found = studies.throughput(times)
    assert [each.rate.median for each in found["gpt"].rates] == pytest.approx([1 / 1.5e-3, 1e3, 5 / 9e-3])
    assert isinstance(found["gpt"].over_law, Measurement)
    assert found["gpt"].over_law.median == pytest.approx(3.5 / 9)
    laws = [each.law for each in found["gpt"].rates] + [found["gpt"].law, found["gpt"].half_batch]
    values = [law.value for law in laws if isinstance(law, Modelled)]
    assert values == pytest.approx([1 / 1.5e-3, 1e3, 5 / 3.5e-3, 5 / 3.5e-3, 2])
    assert [(each.model, each.batch) for each in found["gpt"].rates] == [("GPT", 1), ("GPT", 2), ("GPT", 5)]


def test_without_a_cost_of_calls_there_is_no_law() -> None:
    found = studies.throughput({batch: in_turns({"mlp": 1e-3 * batch**2}) for batch in (1, 2, 5)})["mlp"]
    assert all(isinstance(law, Unmeasured) for law in (found.law, found.over_law, found.half_batch, found.rates[0].law))


def test_time_for_each_flop_is_time_over_arithmetic() -> None:
    assert studies.per_flop(made(16.0), Counted(8, "", "arithmetic")).median == 2
