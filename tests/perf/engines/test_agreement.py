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
        def forward(setting: str, model: Module, inputs: Array) -> Callable[[], Array]:
            return lambda: FAULTS[engine.setting]["output"](ours.forward(setting, model, inputs)())

        def training(setting: str, model: Module, batch: Any, loss: Any, optimizer: AdamWSettings) -> Training:
            made = ours.training(setting, model, batch, loss, optimizer)
            fault = FAULTS[engine.setting]
            return Training(lambda: fault["loss"](made.step()), lambda: fault["state"](dict(made.state())))

        def decoding(setting: str, model: GPT, prompt: Array, new_tokens: int) -> Callable[[], Array]:
            return lambda: FAULTS[engine.setting]["output"](ours.decoding("numpy", model, prompt, new_tokens)())

        return SimpleNamespace(forward=forward, training=training, decoding=decoding)

    monkeypatch.setattr(agreement, "load", biased)


def _same(value: Any) -> Any:
    return value


def _moved(state: dict[str, Array]) -> dict[str, Array]:
    state["1.weight"] = state["1.weight"] + np.float32(1e-3)
    return state


def _without(state: dict[str, Array]) -> dict[str, Array]:
    return {name: values for name, values in state.items() if name != "1.bias"}


NONE: dict[str, Callable[[Any], Any]] = {"output": _same, "loss": _same, "state": _same}
FAULTS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "none": NONE,
    "scaled": {**NONE, "output": lambda output: output * np.float32(1.0001)},
    "NaN": {**NONE, "output": lambda output: output * np.nan},
    "cut": {**NONE, "output": lambda output: output[:, :-1]},
    "loss": {**NONE, "loss": lambda loss: loss * 1.0001},
    "NaN loss": {**NONE, "loss": lambda loss: float("nan")},
    "moved": {**NONE, "state": _moved},
    "fewer": {**NONE, "state": _without},
}


def made(setting: str) -> Engine:
    return Engine("faulty", (), "", "ours", setting)


@pytest.mark.parametrize("phase", ["forward", "step"])
def test_what_is_equal_passes(phase: Any) -> None:
    assert check(made("none"), subject("mlp-64"), phase) == 0


def test_the_same_tokens_pass_and_others_do_not() -> None:
    assert check(made("none"), subject("gpt-1"), "decode") == 0
    with pytest.raises(DisagreementError, match="generates"):
        check(made("cut"), subject("gpt-1"), "decode")


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


@pytest.mark.parametrize("fault", ["scaled", "NaN", "cut"])
def test_other_outputs_are_refused(fault: str) -> None:
    with pytest.raises(DisagreementError, match="faulty"):
        check(made(fault), subject("mlp-64"), "forward")


@pytest.mark.parametrize(
    ("fault", "said"),
    [("loss", "has losses"), ("NaN loss", "has losses"), ("moved", "changes 1.weight"), ("fewer", "1.bias")],
)
def test_other_training_is_refused(fault: str, said: str) -> None:
    with pytest.raises(DisagreementError, match=said):
        check(made(fault), subject("mlp-64"), "step")


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
