"""Calls are named alike wherever they are timed, and nothing that is made of their times has the name."""

from tests.perf.made_ceilings import spread
from tinytorch.chapters import calls


def test_the_same_call_has_one_name_and_its_times_stay() -> None:
    seconds = spread(1e-3, "s", 0.1)
    named = calls.zoo_pass(seconds, "mlp", 64)
    assert named.conditions.call == calls.zoo_pass(spread(0.002, "s", 0.1), "mlp", 64).conditions.call
    assert (named.samples, named.interval, named.name) == (seconds.samples, seconds.interval, seconds.name)
    others = [calls.zoo_pass(seconds, "mlp", 1), calls.zoo_pass(seconds, "cnn", 64), calls.of_call(seconds, "add")]
    assert len({each.conditions.call for each in (named, *others)}) == 4
