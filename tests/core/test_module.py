"""Module: names, modes, and state that is saved whole or not at all."""

import io
import pickle
import zipfile
from collections import deque
from collections.abc import Callable
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


def assert_state(model: Module, expected: dict[str, Any]) -> None:
    for name, value in model.state_dict().items():
        np.testing.assert_array_equal(value, expected[name], err_msg=name)


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
    assert_state(target, source.state_dict())
    # In place, so that optimizers and views still see the parameters.
    assert all(tensor.data is array for tensor, array in zip(target.parameters(), arrays, strict=True))


def _rewritten(change: Callable[[bytearray], Any]) -> Callable[[Path], Any]:
    """Return what writes a model's file with a change of its bytes."""

    def write(path: Path) -> None:
        Tied().save(path)
        data = bytearray(path.read_bytes())
        change(data)
        path.write_bytes(data)

    return write


def _flip(data: bytearray) -> None:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        data[archive.infolist()[-1].header_offset + 200] ^= 255


def _text_inside(path: Path) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name in Tied().state_dict():
            archive.writestr(f"{name}.npy", "text")


def _saved(save: Callable[..., Any], *arrays: Any, **named: Any) -> Callable[[Path], Any]:
    def write(path: Path) -> None:
        with path.open("wb") as file:
            save(file, *arrays, **named)

    return write


BROKEN: dict[str, Callable[[Path], Any]] = {
    "empty": lambda path: path.write_bytes(b""),
    "pickle": lambda path: path.write_bytes(pickle.dumps({"weight": np.ones(2)})),
    "one array": _saved(np.save, np.ones(3)),
    "objects": _saved(np.savez, **{**Tied().state_dict(), "scale": np.array([print], object)}),
    "truncated": _rewritten(lambda data: data.__delitem__(slice(-200, None))),
    "corrupt": _rewritten(_flip),
    "text inside": _text_inside,
    "a folder": Path.mkdir,
}


@pytest.mark.parametrize("kind", BROKEN)
def test_a_broken_file_is_refused_and_changes_nothing(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "broken.npz"
    BROKEN[kind](path)
    model = Tied(7)
    before = model.state_dict()
    with pytest.raises(ValueError, match=r"holds|must have shape"):
        model.load(path)
    assert_state(model, before)
    with pytest.raises(FileNotFoundError):
        model.load(tmp_path / "none.npz")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"one.bias": None}, r"lacks \['one.bias'\], and the model lacks none"),
        ({"two.bias": np.ones(1)}, r"lacks none, and the model lacks \['two.bias'\]"),
        ({"scale": np.ones(2)}, r"state\['scale'\] must have shape \(1,\), not \(2,\)"),
        ({"pair.1.running_var": np.array(["a", "b"])}, r"state\['pair.1.running_var'\] must be numeric"),
        ({"scale": np.array([1e300])}, r"state\['scale'\] must hold numbers that float32 can hold, but one is 1e\+300"),
        ({"scale": np.array([None])}, r"state\['scale'\] must be numeric, not of dtype object"),
    ],
)
def test_a_state_that_does_not_fit_is_refused_and_changes_nothing(change: dict[str, Any], message: str) -> None:
    model = Tied(7)
    before = model.state_dict()
    state = {name: value for name, value in {**Tied(0).state_dict(), **change}.items() if value is not None}
    with pytest.raises(ValueError, match=message):
        model.load_state_dict(state)
    assert_state(model, before)


@pytest.mark.parametrize(
    ("held", "given", "fits"),
    [
        (np.int64, 2.7, False),
        (np.int64, 2.0, True),
        (np.int64, np.nan, False),
        (np.int64, 2.0**63, False),
        (np.int8, 128, False),
        (np.int8, -128, True),
        (np.uint8, -1, False),
        (np.bool_, 2, False),
        (np.bool_, 1.0, True),
        (np.float32, 1e300, False),
        (np.float32, np.inf, True),
        (np.float32, np.nan, True),
        (np.float32, 0.1, True),
        (np.float32, 2**40 + 1, True),
        (np.float16, 1e5, False),
    ],
)
def test_a_state_holds_what_its_tensor_can_hold(held: Any, given: Any, fits: bool) -> None:
    model = Holder(Tensor(np.zeros(2, held)))
    state = {"held": np.array([0, given])}
    if fits:
        model.load_state_dict(state)
        np.testing.assert_array_equal(model.held.data, np.array([0, given], held))
    else:
        with pytest.raises(ValueError, match=f"state.'held'. must hold numbers that {np.dtype(held)} can hold"):
            model.load_state_dict(state)
        assert not model.held.data.any()


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
    with pytest.raises(TypeError, match="Module"):
        Module()(1)


class Holder(Module):
    def __init__(self, held: Any) -> None:
        self.held = held


def _nested() -> dict[str, Any]:
    """Return containers of two layers of five parameters that are deep inside of them."""
    one, two = Linear(4, 1, seed=0), Linear(4, 1, seed=1)
    itself: list[Any] = [one, two]
    itself.append(itself)
    return {
        "dict of lists and tuples": {"a": [one], "b": (two,)},
        "tuple of deques": (deque([one]), deque([two])),
        "read-only mapping": MappingProxyType({"a": {"b": one}, "c": [two]}),
        "list that holds itself": itself,
        "among what holds no module": [[1.0, "text", None, [one]], {3: [[two]]}],
    }


@pytest.mark.parametrize("kind", _nested())
def test_modules_in_nested_containers_are_counted_saved_trained_and_switched(kind: str) -> None:
    model = Holder(_nested()[kind]).eval()
    layers = [module for _, module in model.named_modules() if isinstance(module, Linear)]
    assert len(layers) == 2
    assert [layer.training for layer in layers] == [False, False]
    assert sum(parameter.size for parameter in model.parameters()) == 10
    state = {name: np.full_like(array, 7) for name, array in model.state_dict().items()}
    assert len(state) == 4
    model.load_state_dict(state)
    assert all((layer.weight.data == 7).all() for layer in layers)


def test_a_set_of_modules_is_refused_by_name() -> None:
    with pytest.raises(TypeError, match=r"held\.0"):
        Holder([{Linear(2, 2)}]).parameters()
    assert Holder([{1, 2}]).parameters() == []
