"""The zoo: what its models reach on their whole test sets, and when their weights are made again."""

from pathlib import Path

import numpy as np
import pytest

from tinytorch import core, datasets, models
from tinytorch.core.module import Module


@pytest.mark.parametrize(("name", "least"), [("mlp", 0.97), ("cnn", 0.98), ("gpt", 0.99)])
def test_a_trained_model_reaches_its_score(name: str, least: float) -> None:
    assert models.accuracy(models.trained(name), name) >= least


def test_accuracy_is_the_share_of_right_answers() -> None:
    class Always(Module):
        """Answers the digit 3 whatever it sees."""

        def forward(self, x: object) -> object:
            logits = np.zeros((len(x.data), 10), np.float32)  # type: ignore[attr-defined]
            logits[:, 3] = 1
            return type("Output", (), {"data": logits})()

    labels = models.ZOO["mlp"].data().test_targets
    assert models.accuracy(Always(), "mlp") == np.mean(labels == 3)
    np.testing.assert_array_equal(models.correct(Always(), "mlp"), labels == 3)


def test_weights_are_kept_and_read_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "WEIGHTS", tmp_path)
    trainings: list[str] = []

    def untrained(name: str, seed: int = 0) -> Module:
        trainings.append(name)
        return models.entry(name).make(seed + 7).eval()

    monkeypatch.setattr(models, "train", untrained)
    first, second = models.trained("mlp"), models.trained("mlp")
    assert trainings == ["mlp"]
    for one, other in zip(first.parameters(), second.parameters(), strict=True):
        np.testing.assert_array_equal(one.data, other.data)
    assert not second.training


def test_weights_are_made_again_when_what_made_them_changes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tinytorch"
    for room in ("core", "models"):
        (package / room).mkdir(parents=True)
    for name in ("core/__init__.py", "core/tensor.py", "datasets.py", "models/__init__.py"):
        (package / name).write_text("x = 1\n")
    monkeypatch.setattr(models, "_PACKAGE", package)
    monkeypatch.setattr(models, "__file__", str(package / "models" / "__init__.py"))
    monkeypatch.setattr(core, "__file__", str(package / "core" / "__init__.py"))
    monkeypatch.setattr(datasets, "__file__", str(package / "datasets.py"))
    seen = {models.weights_key()}
    for name in ("core/tensor.py", "datasets.py", "models/__init__.py"):
        (package / name).write_text("x = 2\n")
        seen.add(models.weights_key())
    assert len(seen) == 4


def test_examples_repeat_the_test_part_when_more_are_asked_for() -> None:
    entry = models.entry("cnn")
    inputs, targets = entry.example_input(400), entry.example_target(400)
    once = len(entry.data().test_targets)
    assert inputs.shape == (400, 1, 8, 8)
    assert 300 < once < 400
    np.testing.assert_array_equal(inputs[once:], inputs[: 400 - once])
    np.testing.assert_array_equal(targets[once:], targets[: 400 - once])


@pytest.mark.parametrize(
    ("call", "message"), [(lambda: models.entry("rnn"), "rnn"), (lambda: models.example("mlp", 0), "batch")]
)
def test_what_is_not_there_is_refused_by_name(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()  # type: ignore[operator]


def test_the_learning_rate_rises_then_falls() -> None:
    factors = [models.warm_up_then_cosine(fraction) for fraction in np.linspace(0, 1, 101)]
    top = int(np.argmax(factors))
    assert 0 < factors[0] < 0.1
    assert max(factors) == pytest.approx(1, abs=0.01)
    assert np.all(np.diff(factors[: top + 1]) > 0)
    assert np.all(np.diff(factors[top:]) < 0)
    assert factors[-1] == pytest.approx(0, abs=1e-9)


def test_weights_of_another_arithmetic_are_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def key(core: str) -> str:
        monkeypatch.setattr(models, "threadpool_info", lambda: [{"user_api": "blas", "architecture": core}])
        assert core in models.arithmetic()
        return models.weights_key()

    assert key("Haswell") != key("SkylakeX")
