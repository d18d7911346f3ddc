"""Models of the zoo's shapes that nobody trained, and trials with times of our own making."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from tinytorch import models
from tinytorch.core.module import Module
from tinytorch.core.transformers import GPT
from tinytorch.perf.benchmarking.zoo import student
from tinytorch.perf.capstone.configuration import Configuration
from tinytorch.perf.capstone.ladder import Stage, Trial
from tinytorch.perf.capstone.prediction import Forecast, Profile
from tinytorch.perf.capstone.rule import Rule
from tinytorch.perf.capstone.steps import Move, name_of
from tinytorch.perf.compression import low_rank_model, magnitude_prune, sparse_model, structured_prune
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.comparison import compare_all
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.perf.quantization import PairedAccuracy

#: Paired answers that nobody lost, and answers of which three in a hundred were lost.
KEPT = PairedAccuracy(2000, 0.99, 0.99, 0, 0, Interval(-0.002, 0.002, 0.95), 1.0)
LOST = PairedAccuracy(2000, 0.99, 0.96, 60, 0, Interval(-0.04, -0.02, 0.95), 0.0)


def untrained(name: str) -> GPT:
    """Return the capstone's model of that name, made as the zoo makes it but for the training."""
    full = models.gpt(0).eval()
    made: dict[str, Callable[[], Module]] = {
        "full": lambda: full,
        "half of the units": lambda: structured_prune(full, 0.5),
        "distilled": lambda: student("gpt"),
        "low rank": lambda: low_rank_model(full, 0.25),
        "sparse": lambda: sparse_model(magnitude_prune(full, 0.9)),
    }
    return cast(GPT, made[name]().eval())


def in_turns(seconds: Mapping[str, float], count: int = 30) -> dict[str, Measurement]:
    """Return times as `interleave` gives them: all hit alike by a drift, and each by a hair of its own."""

    def one(index: int, name: str) -> Measurement:
        drift = [1 + 0.1 * ((7 * at) % count) / count + 1e-4 * ((at * (index + 3)) % 5) for at in range(count)]
        how = {"interleaved_with": [other for other in seconds if other != name]}
        return Measurement(name, tuple(seconds[name] * each for each in drift), "s", how)

    return {name: one(index, name) for index, name in enumerate(seconds)}


def made_stage(
    before: Configuration,
    moves: Mapping[Move, Configuration],
    seconds: Mapping[Configuration, float],
    forecasts: Mapping[Configuration, float],
    lossy: frozenset[Configuration] = frozenset(),
) -> Stage:
    """Return the stage of moves whose configurations take ``seconds``, ordered by ``forecasts``."""
    times = in_turns({"as it was": seconds[before], **{name_of(move): seconds[after] for move, after in moves.items()}})
    gained = compare_all(times["as it was"], *[times[name_of(move)] for move in moves], delta=0.02)
    rule, trials = Rule(), []
    for move in sorted(moves, key=lambda move: -forecasts[moves[move]]):
        won, after = gained[name_of(move)], moves[move]
        accuracy = (LOST if after in lossy else KEPT) if rule.is_faster(won) else None
        guess = Forecast(1.0, 1.0, forecasts[after], forecasts[after])
        trials.append(Trial(move, after, guess, times[name_of(move)], won, accuracy, rule.outcome(won, accuracy)))
    return Stage(before, cast(Profile, cast(Any, None)), tuple(trials))
