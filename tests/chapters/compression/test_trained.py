"""Models that were trained on: kept in files, under the names of all that decides them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.perf.quantization.small_zoo import batch, make
from tinytorch import models
from tinytorch.chapters.compression.trained import small_mlp, trained_on
from tinytorch.perf.compression import magnitude_prune, measure_sparsity


def test_training_is_kept_and_keyed_by_weights_masks_and_teacher(tmp_path: Path) -> None:
    model = make("mlp")
    how: dict[str, Any] = {"epochs": 1, "examples": 128, "folder": tmp_path}
    pruned = magnitude_prune(model, 0.8)
    first = trained_on("mlp", pruned, **how)
    assert measure_sparsity(first) == measure_sparsity(pruned)
    assert (first[1].weight.data != pruned[1].weight.data).any()  # type: ignore[index]
    assert len(list(tmp_path.glob("*.npz"))) == 1
    again = trained_on("mlp", pruned, **how)
    for name, values in again.state_dict().items():
        np.testing.assert_array_equal(values, first.state_dict()[name])
    assert len(list(tmp_path.glob("*.npz"))) == 1
    unmasked = make("mlp")
    unmasked.load_state_dict(pruned.state_dict())
    assert measure_sparsity(trained_on("mlp", unmasked, **how)) < 40, "the same values without masks are another start"
    student = small_mlp(6, 5, seed=1)
    alone, taught = trained_on("mlp", student, **how), trained_on("mlp", student, teacher=model, **how)
    assert (alone(batch("mlp")).data != taught(batch("mlp")).data).any()
    assert len(list(tmp_path.glob("*.npz"))) == 4
    assert models.accuracy(alone, "mlp") >= 0
    with pytest.raises(ValueError, match="examples"):
        trained_on("mlp", student, 1, examples=0)
