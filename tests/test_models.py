"""The zoo: what its models reach on their whole test sets, and when their weights are made again."""

from pathlib import Path

import numpy as np
import pytest

from tinytorch import core, datasets, models
from tinytorch.core.module import Module
from tinytorch.models import weights


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


def test_weights_are_kept_and_read_back_and_trained_anew_where_the_file_was_cut_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(weights, "WEIGHTS", tmp_path)
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
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    file.write_bytes(whole[:1000])
    models.trained("mlp")
    assert file.read_bytes() == whole


def test_weights_are_made_again_when_what_computes_them_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_by = {"core/__init__.py": core, "datasets.py": datasets, "models/__init__.py": models, "core/tensor.py": None}
    monkeypatch.setattr(weights, "_PACKAGE", tmp_path)
    for name, module in made_by.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("x = 1\n")
        if module is not None:
            monkeypatch.setattr(module, "__file__", str(tmp_path / name))
    seen = {weights.weights_key(), weights.weights_key("seed 1")}
    for name in made_by:
        before = weights.weights_key()
        (tmp_path / name).write_text('"""What it is."""\n\nx = (1)  # as before\n')
        assert weights.weights_key() == before, "comments, docstrings and layout compute nothing"
        (tmp_path / name).write_text("x = 2\n")
        seen.add(weights.weights_key())
    for architecture in ("made", "other"):
        info = [{"user_api": "blas", "architecture": architecture}]
        monkeypatch.setattr(weights, "threadpool_info", lambda info=info: info)
        assert architecture in weights.arithmetic()
        seen.add(weights.weights_key())
    assert len(seen) == 8


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
    assert 0 < factors[0] < 0.1 < 0.99 < max(factors) <= 1
    assert np.all(np.diff(factors[: top + 1]) > 0)
    assert np.all(np.diff(factors[top:]) < 0)
    assert factors[-1] == pytest.approx(0, abs=1e-9)
