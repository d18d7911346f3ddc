"""The suites of the zoo: what its variants are trained from, and for how long."""

import numpy as np
import pytest

from tinytorch import models
from tinytorch.core.module import Module
from tinytorch.perf.benchmarking import zoo


def test_the_baseline_is_trained_on_by_the_plan_of_its_rivals(monkeypatch: pytest.MonkeyPatch) -> None:
    large, asked = models.mlp().eval(), {}

    def tuned(name: str, variant: str, model: Module, seed: int) -> Module:
        asked[variant] = (name, model, seed)
        return model

    monkeypatch.setattr(models, "trained", lambda name, seed=0: large)
    monkeypatch.setattr(zoo, "tuned", tuned)
    for variant in zoo.TRAINED:
        if variant != "distilled":
            zoo.trained_variant("mlp", variant)
    assert set(asked) == {"baseline", "structured", "pruned", "low-rank"}
    name, started, seed = asked["baseline"]
    assert (name, seed) == ("mlp", 0)
    # The zoo's own model is not touched, and the copy begins where it ended.
    assert started is not large
    for ours, theirs in zip(started.parameters(), large.parameters(), strict=True):
        assert ours.data is not theirs.data
        assert np.array_equal(ours.data, theirs.data)
    with pytest.raises(ValueError, match="variant"):
        zoo.trained_variant("mlp", "cached")
