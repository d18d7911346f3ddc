"""The experiments that pages run, held against what they must add up to."""

import time

import numpy as np
import pytest

from tinytorch.core.layers import Linear
from tinytorch.core.tensor import Tensor
from tinytorch.perf import noise_lab, studies
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.noise_lab import FalseAlarms
from tinytorch.perf.profiling.first_calls import first_calls, first_over_settled, settled


def run() -> None:
    x = Tensor(np.ones((8, 16), np.float32))
    (Linear(16, 16, seed=0)(x).tanh() + 1).sum()


def test_shares_of_parts_that_cover_everything_add_up_to_one() -> None:
    found = studies.shares(run, {"linear": lambda e: e.op == "linear", "rest": lambda e: e.op != "linear"}, repeats=5)
    np.testing.assert_allclose(np.add(found["linear"].samples, found["rest"].samples), 1)
    assert 0 < found["linear"].median < 1


def test_a_run_without_ops_has_no_shares() -> None:
    with pytest.raises(ValueError, match="at least one op"):
        studies.shares(lambda: None, {})


def test_time_between_ops_is_what_a_pause_between_them_takes() -> None:
    def paused() -> None:
        run()
        until = time.perf_counter() + 0.02
        while time.perf_counter() < until:
            pass

    assert studies.time_between_ops(paused, repeats=3).median > 0.8 > 0 < studies.time_between_ops(run, 3).median


def test_studies_say_how_much_of_a_core_they_had() -> None:
    def waiting() -> None:
        run()
        time.sleep(0.02)

    found = [
        studies.shares(waiting, {"all": lambda _: True}, repeats=3)["all"],
        studies.time_between_ops(waiting, repeats=3),
        studies.single_calls(waiting, "waiting", 3),
    ]
    assert all(0 <= measured.how["cpu_per_wall"] < 0.7 for measured in found)
    assert studies.phases("mlp", batch=4, repeats=2)["forward"].how["cpu_per_wall"] > 0


def test_phases_of_a_step_have_as_many_samples_as_steps_and_train_the_model() -> None:
    from tinytorch import models

    model = models.mlp()
    before = [parameter.data.copy() for parameter in model.parameters()]
    found = studies.phases("mlp", batch=4, repeats=6, model=model)
    assert {name: m.n for name, m in found.items()} == {"forward": 6, "backward": 6, "update": 6}
    assert all(not np.array_equal(a, p.data) for a, p in zip(before, model.parameters(), strict=True))


def test_single_calls_keep_every_call() -> None:
    calls: list[int] = []
    measured = studies.single_calls(lambda: calls.append(1), "appending", 40)
    assert measured.n == 40
    assert len(calls) == 40 + measured.how["warmup_runs"]
    with pytest.raises(ValueError, match="calls"):
        studies.single_calls(run, "nothing", 0)


def test_medians_of_normal_samples_scatter_more_than_means_and_of_wild_ones_less() -> None:
    draw = np.random.default_rng(0)
    normal = studies.spread_of_means_over_medians(list(draw.normal(10, 1, 6000)))
    # The median's standard error is sqrt(pi / 2) = 1.25 times the mean's for normal samples.
    assert normal.median == pytest.approx(1 / np.sqrt(np.pi / 2), rel=0.15)
    wild = draw.normal(10, 1, 6000) + 500 * (draw.random(6000) < 0.01)
    assert studies.spread_of_means_over_medians(list(wild)).interval.low > 1
    with pytest.raises(ValueError, match="samples"):
        studies.spread_of_means_over_medians([1.0] * 10)


def test_memory_of_a_step_holds_what_the_model_and_adamw_hold() -> None:
    from tinytorch import models

    found = studies.training_memory("mlp", batch=8)
    parameters = sum(parameter.nbytes for parameter in models.mlp().parameters())
    assert found.highest["parameters"] == found.highest["gradients"] == parameters
    assert found.highest["optimizer"] == 2 * parameters


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
    assert settled(calls, first=1).samples == pytest.approx((2.0, 0.2))
    assert first_over_settled(calls, first=1).samples == pytest.approx((15.0, 15.0))
    with pytest.raises(ValueError, match="first"):
        settled(calls, first=4)


def test_false_alarms_have_an_exact_interval() -> None:
    # Clopper and Pearson for 0 of n: (0, 1 - (alpha / 2) ** (1 / n)).
    none = FalseAlarms("a rule", 0, 20)
    assert none.rate == 0
    assert none.interval.low == 0
    assert none.interval.high == pytest.approx(1 - 0.025 ** (1 / 20))


def test_a_program_that_gets_slower_meanwhile_always_alarms_the_sequential_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0]
    calls = iter(range(1, 10_000))

    def slower_and_slower() -> None:
        clock[0] += 1000 * next(calls)

    monkeypatch.setattr("tinytorch.perf.noise_lab.time.perf_counter_ns", lambda: clock[0])
    found = noise_lab.false_alarms_in_sequence(slower_and_slower, trials=3)
    assert (found.alarms, found.trials) == (3, 3)
    # The same program at a steady pace: no scatter, so nothing to test and no alarm.
    monkeypatch.setattr("tinytorch.perf.noise_lab.time.perf_counter_ns", lambda: 0)
    assert noise_lab.false_alarms_in_sequence(slower_and_slower, trials=3).alarms == 0
    with pytest.raises(ValueError, match="trials"):
        noise_lab.false_alarms_in_sequence(run, trials=0)
