"""The check that stands before every comparison: it passes what we compute and refuses what differs."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tinytorch.core import dispatch, ops
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Implementation
from tinytorch.core.tensor import Tensor
from tinytorch.core.transformers import GPT
from tinytorch.perf.engines import agreement, ours
from tinytorch.perf.engines.agreement import DisagreementError, check
from tinytorch.perf.engines.protocol import AdamWSettings, Engine, Training
from tinytorch.perf.engines.workloads import SUBJECTS, our_loss, subject


@pytest.fixture(autouse=True)
def _biased(monkeypatch: pytest.MonkeyPatch) -> None:
    """Load ours with a fault, which the setting names: of outputs, of losses or of states."""

    def biased(engine: Engine) -> Any:
        def faulty(kind: str, value: Any) -> Any:
            return FAULTS[engine.setting].get(kind, lambda value: value)(value)

        def forward(setting: str, model: Module, inputs: Array) -> Callable[[], Array]:
            return lambda: faulty("output", ours.forward(setting, model, inputs)())

        def training(setting: str, model: Module, batch: Any, loss: Any, optimizer: AdamWSettings) -> Training:
            made = ours.training(setting, model, batch, loss, optimizer)
            return Training(lambda: faulty("loss", made.step()), lambda: faulty("state", dict(made.state())))

        def decoding(setting: str, model: GPT, prompt: Array, new_tokens: int) -> Callable[[], Array]:
            return lambda: faulty("output", ours.decoding("numpy", model, prompt, new_tokens)())

        return SimpleNamespace(forward=forward, training=training, decoding=decoding)

    monkeypatch.setattr(agreement, "load", biased)


def _moved(state: dict[str, Array]) -> dict[str, Array]:
    return {**state, "1.weight": state["1.weight"] + np.float32(1e-3)}


#: What an engine makes of ours, where that is wrong.
FAULTS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "none": {},
    "scaled": {"output": lambda output: output * np.float32(1.0001)},
    "NaN": {"output": lambda output: output * np.nan},
    "cut": {"output": lambda output: output[:, :-1]},
    "loss": {"loss": lambda loss: loss * 1.0001},
    "NaN loss": {"loss": lambda loss: float("nan")},
    "moved": {"state": _moved},
    "fewer": {"state": lambda state: {name: values for name, values in state.items() if name != "1.bias"}},
}


def made(setting: str) -> Engine:
    return Engine("faulty", (), "", "ours", setting)


@pytest.mark.parametrize(("name", "phase"), [("mlp-64", "forward"), ("mlp-64", "step"), ("gpt-1", "decode")])
def test_what_is_equal_passes(name: str, phase: Any) -> None:
    assert check(made("none"), subject(name), phase) == 0


def test_only_a_gpt_generates() -> None:
    with pytest.raises(ValueError, match="subject"):
        check(made("none"), subject("mlp-1"), "decode")


@pytest.mark.parametrize("phase", ["forward", "step", "decode"])
def test_what_is_held_against_ours_meets_numpy_also_where_kernels_are_selected(phase: Any) -> None:
    def doubled(keep: bool, *arrays: Any, **params: Any) -> Any:
        output, saved = ops.linear.reference.forward(keep, *arrays, **params)
        return -2 * output, saved

    wrong = {ops.linear: Implementation("wrong", doubled, ops.linear.reference.backward)}
    with dispatch.implementations(wrong), pytest.raises(DisagreementError):
        check(made("none"), subject("gpt-1"), phase)


@pytest.mark.parametrize(
    ("fault", "name", "phase", "said"),
    [
        *((fault, "mlp-64", "forward", "faulty") for fault in ("scaled", "NaN", "cut")),
        ("cut", "gpt-1", "decode", "generates"),
        ("loss", "mlp-64", "step", "losses"),
        ("NaN loss", "mlp-64", "step", "losses"),
        ("moved", "mlp-64", "step", "changes 1.weight"),
        ("fewer", "mlp-64", "step", "1.bias"),
    ],
)
def test_what_differs_is_refused(fault: str, name: str, phase: Any, said: str) -> None:
    with pytest.raises(DisagreementError, match=said):
        check(made(fault), subject(name), phase)


@pytest.mark.parametrize("name", ["gpt-1", "mlp-64", "cnn-1"])
def test_subjects_are_the_same_whenever_they_are_made(name: str) -> None:
    one = SUBJECTS[name]
    first, second = one.make().state_dict(), one.make().state_dict()
    assert all(np.array_equal(values, second[key]) for key, values in first.items())
    assert all(np.array_equal(a, b) for a, b in zip(one.batch(), one.batch(), strict=True))


def test_losses_are_means_over_all_that_targets_hold() -> None:
    draw = np.random.default_rng(0)
    logits, labels = draw.standard_normal((2, 3, 5)), draw.integers(0, 5, (2, 3))
    logs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    expected = -np.take_along_axis(logs, labels[..., None], -1).mean()
    assert our_loss("cross entropy", Tensor(logits), labels).item() == pytest.approx(expected, rel=1e-6)
    targets = draw.standard_normal((2, 3, 5))
    squared = our_loss("squared error", Tensor(logits), targets).item()
    assert squared == pytest.approx(((logits - targets) ** 2).mean(), rel=1e-6)
