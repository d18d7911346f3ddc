"""Quantized models in files."""

from pathlib import Path

import numpy as np
import pytest

from tests.perf.quantization.small_zoo import NAMES, batch, make
from tinytorch import models
from tinytorch.core.layers import Linear
from tinytorch.core.module import Sequential
from tinytorch.core.tensor import Tensor
from tinytorch.perf.quantization import Plan, Scheme, load_quantized, quantize_model, save_quantized

PLANS = [
    Plan(),
    Plan("static", Scheme(8, False, "tensor"), symmetric=False),
    Plan("weight-only", Scheme(4, False, "group", group=24)),
    Plan("dynamic", Scheme(2, True, "channel"), activations="tensor", ranges="mse"),
]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_a_model_comes_back_bit_by_bit(name: str, plan: Plan, tmp_path: Path) -> None:
    x = batch(name)
    keep = ["0"] if name == "cnn" else []
    quantized = quantize_model(make(name), x, plan, keep).eval()
    path = tmp_path / "model.npz"
    save_quantized(quantized, path)
    untrained = make(name, 7).train()
    kept = untrained.state_dict()
    loaded = load_quantized(path, untrained)
    assert repr(loaded) == repr(quantized)
    assert not any(module.training for _, module in loaded.named_modules())
    np.testing.assert_array_equal(loaded(x).data, quantized(x).data)
    state, expected = loaded.state_dict(), quantized.state_dict()
    assert {key: array.dtype for key, array in state.items()} == {key: array.dtype for key, array in expected.items()}
    for key, values in untrained.state_dict().items():
        np.testing.assert_array_equal(values, kept[key])


def test_packed_codes_stay_packed_and_nothing_is_pickled(tmp_path: Path) -> None:
    model = Sequential(Linear(64, 48, seed=0))
    path = tmp_path / "model.npz"
    save_quantized(quantize_model(model, plan=Plan("weight-only", Scheme(4, False, "group"))), path)
    with np.load(path, allow_pickle=False) as archive:
        shapes = {name: (archive[name].dtype.str, archive[name].shape) for name in archive.files}
    assert shapes["model.0.codes"] == ("|u1", (32, 48))
    assert shapes["model.0.zero_point"] == ("|i1", (2, 48))
    assert shapes["model.0.scale"] == ("<f4", (2, 48))
    assert path.stat().st_size < 0.3 * model[0].weight.nbytes + 2000


def test_the_plain_state_loads_into_a_model_of_the_same_plan(tmp_path: Path) -> None:
    first, second = (quantize_model(models.mlp(seed), plan=PLANS[2]) for seed in (0, 1))
    x = models.example("mlp", 3)
    first.save(tmp_path / "state.npz")
    assert not np.array_equal(first(x).data, second(x).data)
    second.load(tmp_path / "state.npz")
    np.testing.assert_array_equal(first(x).data, second(x).data)
    with pytest.raises(ValueError, match="does"):
        models.mlp(0).load(tmp_path / "state.npz")
    models.mlp(0).save(tmp_path / "float.npz")
    with pytest.raises(ValueError, match="does"):
        second.load(tmp_path / "float.npz")
    np.testing.assert_array_equal(first(x).data, second(x).data)


def test_a_file_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    model = Sequential(Linear(4, 3, seed=0))
    path = tmp_path / "model.npz"
    save_quantized(quantize_model(model), path)
    with pytest.raises(ValueError, match="layers"):
        load_quantized(path, Linear(4, 3, seed=0))
    with pytest.raises(ValueError, match="shape"):
        load_quantized(path, Sequential(Linear(5, 3, seed=0)))
    with pytest.raises(FileNotFoundError):
        load_quantized(tmp_path / "none.npz", model)
    with pytest.raises(ValueError, match="quantized layers"):
        save_quantized(model, path)
    model.save(tmp_path / "float.npz")
    (tmp_path / "text.npz").write_text("no archive")
    np.savez(tmp_path / "other.npz", description=np.frombuffer(b'{"0": {"mode": "guess"}}', np.uint8))
    np.savez(tmp_path / "broken.npz", description=np.frombuffer(b"{", np.uint8))
    for name in ("float", "text", "other", "broken"):
        with pytest.raises(ValueError, match="holds"):
            load_quantized(tmp_path / f"{name}.npz", model)
    x = Tensor(np.ones((1, 4), np.float32))
    assert model(x).shape == (1, 3)
