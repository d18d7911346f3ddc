"""Module: names, modes, and state that is saved whole or not at all."""

import pickle
import zipfile
from collections import OrderedDict, deque
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from tinytorch.core.layers import Dropout, Embedding, Linear
from tinytorch.core.module import Module, Parameter, Sequential
from tinytorch.core.spatial import BatchNorm2d
from tinytorch.core.tensor import Tensor


class Tied(Module):
    """A shared module, a shared parameter, a buffer, and containers of each kind."""

    def __init__(self, seed: int = 0) -> None:
        self.one = Linear(2, 3, seed=seed)
        self.same = self.one
        self.pair = (Linear(3, 2, seed=seed + 1), BatchNorm2d(2))
        self.by_name = {"head": Linear(2, 2, bias=False, seed=seed + 2)}
        self.table = Embedding(4, 3, seed=seed + 3)
        self.again = self.table.weight
        self.scale = Tensor(np.array([1.5], np.float32))
        self.parts = [Parameter(np.zeros(2, np.float32)), Parameter(np.ones(2, np.float32))]
        self.note = "no tensor"


NAMES = [
    "again",
    "parts.0",
    "parts.1",
    "one.weight",
    "one.bias",
    "pair.0.weight",
    "pair.0.bias",
    "pair.1.weight",
    "pair.1.bias",
    "by_name.head.weight",
]


def test_parameters_and_buffers_have_dotted_names_and_come_once() -> None:
    model = Tied()
    assert [name for name, _ in model.named_parameters()] == NAMES
    assert [name for name, _ in model.named_buffers()] == ["scale", "pair.1.running_mean", "pair.1.running_var"]
    assert len({id(parameter) for parameter in model.parameters()}) == len(model.parameters()) == len(NAMES)
    assert [name for name, _ in model.named_modules()] == ["", "one", "pair.0", "pair.1", "by_name.head", "table"]
    assert [name for name, _ in model.named_children()] == ["one", "same", "pair.0", "pair.1", "by_name.head", "table"]


def test_sequential_names_its_layers_by_number() -> None:
    model = Sequential(Linear(2, 3, seed=0), Sequential(Linear(3, 3, seed=1)))
    assert [name for name, _ in model.named_parameters()] == ["0.weight", "0.bias", "1.0.weight", "1.0.bias"]
    assert len(model) == 2
    assert model[0] is next(iter(model))
    assert model(Tensor(np.ones((1, 2), np.float32))).shape == (1, 3)
    assert repr(model) == (
        "Sequential(\n  (0): Linear(2, 3, bias=True)\n  (1): Sequential(\n    (0): Linear(3, 3, bias=True)\n  )\n)"
    )


def test_train_and_eval_reach_every_module() -> None:
    model = Sequential(Dropout(0.5, seed=0), Sequential(Dropout(0.5, seed=0), BatchNorm2d(1)))
    assert model.eval() is model
    assert [module.training for _, module in model.named_modules()] == [False] * 5
    assert model.train() is model
    assert [module.training for _, module in model.named_modules()] == [True] * 5


def test_zero_grad_forgets() -> None:
    model = Linear(2, 1, seed=0)
    model(Tensor([[1.0, 2.0]])).backward()
    assert model.weight.grad is not None
    model.zero_grad()
    assert [parameter.grad for parameter in model.parameters()] == [None, None]


def test_a_parameter_owns_a_copy_in_c_order_of_the_dtype_of_a_tensor() -> None:
    data = np.arange(6.0).reshape(2, 3).T
    parameter = Parameter(data)
    assert parameter.requires_grad
    assert parameter.data.flags.c_contiguous
    assert parameter.dtype == np.float64
    assert not np.shares_memory(parameter.data, data)
    np.testing.assert_array_equal(parameter.data, data)
    assert Parameter([1.0, 2.0]).dtype == np.float32
    assert not np.shares_memory(Parameter(Tensor(data)).data, data)


def test_state_is_a_copy() -> None:
    model = Tied()
    state = model.state_dict()
    assert list(state) == [*NAMES, "scale", "pair.1.running_mean", "pair.1.running_var"]
    state["one.bias"] += 100
    assert np.abs(model.state_dict()["one.bias"]).max() < 1


@pytest.mark.parametrize("name", ["model.npz", "no suffix", "model.weights"])
def test_state_survives_the_disk_without_pickle(tmp_path: Path, name: str) -> None:
    source, target = Tied(0), Tied(7)
    source.pair[1].running_mean.data[...] = [3, 4]
    path = tmp_path / name
    source.save(path)
    assert [file.name for file in tmp_path.iterdir()] == [name]
    with np.load(path, allow_pickle=False) as archive:
        assert sorted(archive.files) == sorted(source.state_dict())
    arrays = [tensor.data for tensor in target.parameters()]
    assert target.load(path) is target
    for (key, one), other in zip(source.state_dict().items(), target.state_dict().values(), strict=True):
        np.testing.assert_array_equal(one, other, err_msg=key)
    # In place, so that optimizers and views still see the parameters.
    assert all(tensor.data is array for tensor, array in zip(target.parameters(), arrays, strict=True))


def _pickled(path: Path) -> None:
    path.write_bytes(pickle.dumps({"weight": np.ones(2)}))


def _objects(path: Path) -> None:
    state: dict[str, Any] = {**Tied().state_dict(), "scale": np.array([print], object)}
    with path.open("wb") as file:
        np.savez(file, **state)


def _truncated(path: Path) -> None:
    Tied().save(path)
    path.write_bytes(path.read_bytes()[:-200])


def _corrupt(path: Path) -> None:
    Tied().save(path)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:
        last = archive.infolist()[-1]
    data[last.header_offset + 200] ^= 255
    path.write_bytes(bytes(data))


def _one_array(path: Path) -> None:
    with path.open("wb") as file:
        np.save(file, np.ones(3))


def _text_inside(path: Path) -> None:
    state = Tied().state_dict()
    with zipfile.ZipFile(path, "w") as archive:
        for name in state:
            archive.writestr(f"{name}.npy", "text")


BROKEN: dict[str, Any] = {
    "empty": lambda path: path.write_bytes(b""),
    "text": lambda path: path.write_text("weights"),
    "pickle": _pickled,
    "one array": _one_array,
    "objects": _objects,
    "truncated": _truncated,
    "corrupt": _corrupt,
    "text inside": _text_inside,
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_refused_and_changes_nothing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "broken.npz"
    BROKEN[kind](path)
    model = Tied(7)
    before = model.state_dict()
    with pytest.raises(ValueError, match=r"holds no state that save|must have shape"):
        model.load(path)
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, before[name])


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        Tied().load(tmp_path / "none.npz")
    with pytest.raises(ValueError, match="holds"):
        Tied().load(tmp_path)


def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(tmp_path: Path) -> None:
    model = Tied(7)
    before = model.state_dict()
    good = Tied(0).state_dict()
    bad: list[tuple[dict[str, Any], str]] = [
        ({name: value for name, value in good.items() if name != "one.bias"}, r"missing \['one.bias'\], unknown no"),
        ({**good, "two.bias": np.ones(1)}, r"missing nothing, unknown \['two.bias'\]"),
        ({**good, "scale": np.ones(2)}, r"state\['scale'\] must have shape \(1,\), not \(2,\)"),
        ({**good, "pair.1.running_var": np.array(["a", "b"])}, r"state\['pair.1.running_var'\] must be numeric"),
        ({**good, "scale": np.array([None])}, r"state\['scale'\] must be numeric, not of dtype object"),
        ({}, "missing"),
    ]
    for state, message in bad:
        with pytest.raises(ValueError, match=message):
            model.load_state_dict(state)
        for name, value in model.state_dict().items():
            np.testing.assert_array_equal(value, before[name])
    other = Linear(2, 3, seed=0)
    other.save(tmp_path / "other.npz")
    with pytest.raises(ValueError, match="missing"):
        model.load(tmp_path / "other.npz")


def test_a_failed_save_leaves_the_old_file_and_no_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.npz"
    Tied(0).save(path)
    kept = path.read_bytes()

    def full(file: Any, **arrays: Any) -> None:
        file.write(b"half of it")
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="space"):
        Tied(7).save(path)
    assert path.read_bytes() == kept
    assert list(tmp_path.iterdir()) == [path]


def test_forward_must_be_defined() -> None:
    class Empty(Module):
        pass

    with pytest.raises(TypeError, match="Empty"):
        Empty()(1)


def _nested() -> dict[str, Any]:
    """Return containers of two layers of five parameters that are deep inside of them."""
    one, two = Linear(4, 1, seed=0), Linear(4, 1, seed=1)
    itself: list[Any] = [one, two]
    itself.append(itself)
    return {
        "list of lists": [[one], [two]],
        "dict of lists": {"a": [one], "b": [two]},
        "list of dicts of tuples": [{"x": (one,)}, {"x": (two,)}],
        "tuple of deques": (deque([one]), deque([two])),
        "ordered dict": OrderedDict(a=OrderedDict(b=one), c=two),
        "read-only mapping": MappingProxyType({"a": {"b": one}, "c": [two]}),
        "list that holds itself": itself,
        "among what holds no module": [[1.0, "text", None, [one]], {3: [[two]]}],
    }


@pytest.mark.parametrize("kind", _nested())
def test_modules_in_nested_containers_are_counted_saved_trained_and_switched(kind: str) -> None:
    class Holder(Module):
        def __init__(self) -> None:
            self.held = _nested()[kind]

    model = Holder().eval()
    layers = [module for _, module in model.named_modules() if isinstance(module, Linear)]
    assert len(layers) == 2
    assert [layer.training for layer in layers] == [False, False]
    assert sum(parameter.size for parameter in model.parameters()) == 10
    state = {name: np.full_like(array, 7) for name, array in model.state_dict().items()}
    assert len(state) == 4
    model.load_state_dict(state)
    assert all((layer.weight.data == 7).all() for layer in layers)


def test_a_set_of_modules_is_refused_by_name() -> None:
    class Holder(Module):
        def __init__(self, held: Any) -> None:
            self.held = held

    with pytest.raises(TypeError, match=r"held\.0"):
        Holder([{Linear(2, 2)}]).parameters()
    assert Holder([{1, 2}]).parameters() == []
