"""Models of the zoo's shapes that nobody trained, and ladders with times of our own making."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pytest

from tests.perf.made_ceilings import made_ceilings
from tinytorch import models
from tinytorch.chapters.capstone import ladder as ladder_module
from tinytorch.chapters.capstone.configuration import STEPS, Configuration, Move, Step
from tinytorch.chapters.capstone.ladder import Ladder, Rule, Trial, climb_ladder
from tinytorch.chapters.capstone.workload import Workload
from tinytorch.core.module import Module
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.acceleration.prediction import Counts, Profile
from tinytorch.perf.benchmarking.zoo import student
from tinytorch.perf.compression import magnitude_prune, sparse_model, structured_prune
from tinytorch.perf.events.stream import recording
from tinytorch.perf.host.blas import thread_limit
from tinytorch.perf.measuring import Measurement, Modelled
from tinytorch.perf.measuring.comparison import compare_all
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.quantization.tradeoff import PairedAccuracy, accuracy_change
from tinytorch.perf.roofline.placement import place

CACHE, KERNELS, SMALL, TOKEN = STEPS_TRIED = tuple(
    next(step for step in STEPS if step.name == name)
    for name in ("key-value cache", "compiled kernels", "distilled model", "one op a token")
)
RULE = Rule(matters=0.1, accuracy_budget=0.01)
#: Changes of paired answers: of which nobody lost any, and of which three in a hundred were lost.
KEPT = accuracy_change(PairedAccuracy(2000, 0.99, 0.99, 0, 0, 1.0), "kept")
LOST = accuracy_change(PairedAccuracy(2000, 0.99, 0.96, 60, 0, 0.0), "lost")


def untrained(name: str) -> GPT:
    """Return the capstone's model of that name, made as the zoo makes it but for the training."""
    full = models.gpt(0).eval()
    made: dict[str, Callable[[], Module]] = {
        "full": lambda: full,
        "half of the units": lambda: structured_prune(full, 0.5),
        "distilled": lambda: student("gpt"),
        "sparse": lambda: sparse_model(magnitude_prune(full, 0.9)),
    }
    return cast(GPT, made[name]().eval())


def in_turns(seconds: Mapping[str, float], count: int = 30) -> dict[str, Measurement]:
    """Return times as `interleave` gives them: all hit alike by a drift, and each by a hair of its own."""

    def one(index: int, name: str) -> Measurement:
        drift = [1 + 0.1 * ((7 * at) % count) / count + 1e-4 * ((at * (index + 3)) % 5) for at in range(count)]
        conditions = Conditions(interleaved_with=tuple(other for other in seconds if other != name))
        return Measurement(name, tuple(seconds[name] * each for each in drift), "s", conditions)

    return {name: one(index, name) for index, name in enumerate(seconds)}


def made_seconds(configuration: Configuration, cached: float = 1.25) -> float:
    """Return made-up seconds of a call: a cache alone takes ``cached`` times as long, with one op a token 0.4 times."""
    factor = 0.5 if configuration.kernels else 1.0
    factor *= 0.8 if configuration.model == "distilled" else 1.0
    if configuration.cache != "none":
        factor *= 0.4 if configuration.fusion == "token" else cached
    return 1e-3 * factor


def made_profile(name: str, whole: float) -> Profile:
    """Return a profile of ``whole`` seconds: 0.4 of them between ops, 0.2 for calls, and 0.4 of arithmetic and data."""
    x = Tensor(np.ones((64, 64), np.float32))
    with recording() as recorded:
        x @ x
    times = in_turns({"the whole": whole, "matmul": 0.6 * whole})
    seconds = replace(times.pop("the whole"), conditions=Conditions(blas_threads=thread_limit()))
    events = recorded.profile.events
    return Profile(
        seconds, times, place(name, events, seconds, made_ceilings()), Counts(events, 0.2 * seconds.median, 2e-4)
    )


Guess = Callable[[Configuration], float]


def made_ladder(
    questions: int = 1,
    steps: Sequence[Step] = STEPS_TRIED,
    seconds: Guess = made_seconds,
    forecasts: Guess | None = None,
    lossy: frozenset[Configuration] = frozenset(),
) -> Ladder:
    """Return the ladder that the method climbs where configurations take ``seconds``.

    Forecasts are right unless given. What is ``lossy`` and faster loses answers.
    """

    def tried(
        workload: Workload, _: Any, rule: Rule, before: Configuration, moves: Mapping[Move, Configuration]
    ) -> tuple[Profile, list[Trial]]:
        named = {" + ".join(move): after for move, after in moves.items()}
        times = in_turns({"as it was": seconds(before), **{name: seconds(after) for name, after in named.items()}})
        gained = compare_all(times["as it was"], *[times[name] for name in named], matters=rule.matters)

        def trial(move: Move, after: Configuration) -> Trial:
            name, right = " + ".join(move), seconds(before) / seconds(after)
            predicted = Modelled(forecasts(after) if forecasts else right, "", "a gain", "made")
            outcome = rule.outcome(gained[name], lambda: LOST if after in lossy else KEPT)
            return Trial(move, after, predicted, predicted, times[name], gained[name], outcome)

        profile = made_profile(f"a call, {workload.words}", seconds(before))
        return profile, [trial(*move) for move in moves.items()]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ladder_module, "_tried", tried)
        return climb_ladder(Workload(questions), made_ceilings(threads=1), RULE, steps=steps)
