"""Quantized models in files."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.perf.made_ceilings import made_ceilings
from tests.perf.quantization.small_zoo import NAMES, batch, make
from tinytorch.core.autograd import no_grad
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module, Sequential
from tinytorch.core.tensor import Tensor
from tinytorch.core.undisturbed import Arranging, undisturbed
from tinytorch.perf.measuring.model_io import MIB
from tinytorch.perf.profiling import Profiler
from tinytorch.perf.profiling.model_profile import profile_model
from tinytorch.perf.quantization import Plan, Scheme, load_quantized, quantize_model, save_quantized
from tinytorch.perf.quantization.storage import Codes

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
    save_quantized(quantized, tmp_path / "model.npz")
    untrained = make(name, 7).train()
    kept = untrained.state_dict()
    loaded = load_quantized(tmp_path / "model.npz", untrained)
    assert repr(loaded) == repr(quantized)
    assert not any(module.training for _, module in loaded.named_modules())
    state, expected = loaded.state_dict(), quantized.state_dict()
    assert {key: array.dtype for key, array in state.items()} == {key: array.dtype for key, array in expected.items()}
    for key, values in untrained.state_dict().items():
        np.testing.assert_array_equal(values, kept[key])
    quantized.save(tmp_path / "state.npz")
    untrained.save(tmp_path / "float.npz")
    other = quantize_model(untrained, x, plan, keep).eval().load(tmp_path / "state.npz")
    for each in (loaded, other):
        np.testing.assert_array_equal(each(x).data, quantized(x).data)
    for model, file in ((untrained, "state"), (other, "float")):
        with pytest.raises(ValueError, match="does"):
            model.load(tmp_path / f"{file}.npz")


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


def test_a_file_that_does_not_fit_is_refused(tmp_path: Path) -> None:
    model = Sequential(Linear(4, 3, seed=0))
    save_quantized(quantize_model(model), tmp_path / "model.npz")
    model.save(tmp_path / "float.npz")
    (tmp_path / "text.npz").write_text("no archive")
    np.savez(tmp_path / "other.npz", description=np.frombuffer(b'{"0": {"mode": "guess"}}', np.uint8))
    np.savez(tmp_path / "broken.npz", description=np.frombuffer(b"{", np.uint8))
    for name, into, says in [
        ("model", Linear(4, 3, seed=0), "layers"),
        ("model", Sequential(Linear(5, 3, seed=0)), "shape"),
        *((name, model, "holds") for name in ("float", "text", "other", "broken")),
    ]:
        with pytest.raises(ValueError, match=says):
            load_quantized(tmp_path / f"{name}.npz", into)
    with pytest.raises(FileNotFoundError):
        load_quantized(tmp_path / "none.npz", model)
    with pytest.raises(ValueError, match="quantized layers"):
        save_quantized(model, tmp_path / "model.npz")


def everything_held(model: Module) -> list[tuple[int, bytes]]:
    """Return which arrays the weights in codes are held in, and their bytes, as they are."""
    arranged = [tensor for _, tensor in model.named_buffers() if isinstance(tensor, Arranging)]
    return [(id(array), array.tobytes()) for tensor in arranged for array in tensor.arrays]


def undisturbed_run(model: Module, x: Tensor) -> None:
    with undisturbed(model):
        model(x)


#: Instruments that run a model, each of which leaves it as it was.
LOOKS: dict[str, Callable[[Module, Tensor], object]] = {
    "undisturbed": undisturbed_run,
    "count_flops": lambda model, x: Profiler().count_flops(model, x),
    "measure_memory": lambda model, x: Profiler().measure_memory(model, x),
    "measure_latency": lambda model, x: Profiler().measure_latency(model, x, 1, 3),
    "profile_forward_pass": lambda model, x: Profiler(ceilings=made_ceilings()).profile_forward_pass(model, x),
    "profile_model": lambda model, x: profile_model(model, x, "it"),
    "zeros of a shape": lambda model, x: Profiler().count_flops(model, x.shape),
}


@pytest.mark.usefixtures("made_machine")
@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_instruments_leave_codes_as_a_kernel_reads_them(plan: Plan, look: str) -> None:
    """What arranged them anew before each op would be timed as a part of the model."""
    x = Tensor(np.random.default_rng(0).normal(size=(4, 96)).astype(np.float32))
    model = quantize_model(Sequential(Linear(96, 128, seed=0), Linear(128, 96, seed=1)), x.data, plan).eval()
    model(x)
    before = everything_held(model)
    assert before
    LOOKS[look](model, x)
    assert everything_held(model) == before


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("plan", PLANS, ids=str)
def test_memory_counts_the_codes_once(plan: Plan, warm: bool) -> None:
    x = Tensor(np.random.default_rng(0).normal(size=(4, 768)).astype(np.float32))
    model = quantize_model(Sequential(Linear(768, 768, seed=0)), x.data, plan).eval()
    with no_grad():
        model(x)  # which compiles kernels
    if not warm:
        for _, tensor in model.named_buffers():
            if isinstance(tensor, Codes):
                tensor.packed.clear()
    held = sum(len(data) for _, data in everything_held(model))
    found = Profiler().measure_memory(model, x)
    scales = 2 * 768 * 32 * 4
    assert held <= found["buffer_memory_mb"] * MIB < held + scales
    assert found["input_memory_mb"] * MIB == x.nbytes
    assert found["parameter_memory_mb"] * MIB == 768 * 4
    outputs, few = 4 * 768 * 4, 40_000
    assert found["peak_memory_mb"] * MIB < held + scales + 12 * outputs + few
