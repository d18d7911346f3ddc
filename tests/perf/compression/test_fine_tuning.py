"""Models that were trained on: kept in files, under the names of all that decides them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.perf.quantization.small_zoo import batch, make
from tinytorch import models
from tinytorch.core.activations import GELU
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.perf.compression import magnitude_prune, measure_sparsity
from tinytorch.perf.compression.fine_tuning import train_together, trained_on


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
    student = models.mlp(1, (6, 5))
    alone, taught = trained_on("mlp", student, **how), trained_on("mlp", student, teacher=model, **how)
    assert (alone(batch("mlp")).data != taught(batch("mlp")).data).any()
    assert len(list(tmp_path.glob("*.npz"))) == 4
    assert models.accuracy(alone, "mlp") >= 0
    with pytest.raises(ValueError, match="examples"):
        trained_on("mlp", student, 1, examples=0)


@pytest.mark.parametrize("taught", [False, True])
def test_networks_that_train_together_become_what_each_becomes_alone(taught: bool, tmp_path: Path) -> None:
    networks = [magnitude_prune(models.mlp(seed, (12, 7)), 0.5) for seed in range(3)]
    teachers = [models.mlp(seed, (9, 8)) for seed in range(3)] if taught else None
    how: dict[str, Any] = {"epochs": 2, "learning_rate": 2e-3, "examples": 200}
    train_together("mlp", networks, **how, teachers=teachers, folder=tmp_path / "together")
    assert len(list((tmp_path / "together").iterdir())) == 3
    for index, network in enumerate(networks):
        teacher = teachers[index] if teachers else None
        kept = trained_on("mlp", network, **how, teacher=teacher, folder=tmp_path / "together")
        alone = trained_on("mlp", network, **how, teacher=teacher, folder=tmp_path / "alone")
        for name, values in alone.state_dict().items():
            np.testing.assert_allclose(kept.state_dict()[name], values, atol=1e-6)
            assert (values != network.state_dict()[name]).any()
    assert len(list((tmp_path / "together").iterdir())) == 3, "what was trained together is found, not trained again"


@pytest.mark.parametrize(
    ("networks", "said"),
    [
        ([models.mlp(0, (12, 7)), models.mlp(0, (12, 8))], "shape"),
        ([models.cnn(0), models.cnn(1)], "holds Conv2d"),
        ([Sequential(Linear(64, 10, bias=False, seed=0))], "holds Linear"),
        ([Sequential(Linear(64, 8, seed=0), GELU(), Linear(8, 10, seed=0))], "holds GELU"),
    ],
)
def test_networks_that_cannot_be_stacked_are_refused(networks: list[Module], said: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=said):
        train_together("mlp", networks, 1, folder=tmp_path)
    assert not list(tmp_path.iterdir())
