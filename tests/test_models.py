"""The zoo and its data: shapes, scores on whole test sets, and weights that are kept and made again."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from tinytorch import core, datasets, kept, models
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


def test_an_installed_package_keeps_in_the_users_cache_and_a_checkout_in_its_own_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert kept.kept_folder("models") == Path(kept.__file__).parents[1] / "_build" / "models"
    monkeypatch.setattr(kept, "__file__", str(tmp_path / "site-packages" / "tinytorch" / "kept.py"))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    found = kept.kept_folder("models")
    assert found.is_relative_to(tmp_path)
    assert not found.is_relative_to(tmp_path / "site-packages")


def test_a_place_that_cannot_be_written_costs_no_result_and_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(weights, "WEIGHTS", tmp_path / "file" / "models")
    monkeypatch.setattr(models, "train", lambda name, seed=0: models.entry(name).make(seed))
    with pytest.warns(UserWarning, match="directory"):
        assert models.trained("mlp").parameters()


def test_digits_are_scikit_learns_split_once_and_for_all() -> None:
    data, bunch = datasets.digits(), load_digits()
    images = np.concatenate([data.train_inputs, data.test_inputs])
    labels = np.concatenate([data.train_targets, data.test_targets])
    assert images.shape == (1797, 1, 8, 8)
    assert images.dtype == np.float32
    # The same multiset of images with their labels, in another order.
    ours, theirs = np.column_stack([labels, images.reshape(-1, 64) * 16]), np.column_stack([bunch.target, bunch.data])
    np.testing.assert_array_equal(ours[np.lexsort(ours.T)], theirs[np.lexsort(theirs.T)])
    test = np.bincount(data.test_targets, minlength=10)
    np.testing.assert_allclose(test / np.bincount(labels), 0.2, atol=0.005)
    with pytest.raises(ValueError, match="read-only"):
        data.test_inputs[0] = 0


def test_shifted_digits_move_by_one_pixel_and_let_nothing_in() -> None:
    images, labels = datasets.shifted_digits()
    original = datasets.digits().train_inputs
    np.testing.assert_array_equal(labels, np.tile(datasets.digits().train_targets, 5))
    framed = np.pad(original, ((0, 0), (0, 0), (1, 1), (1, 1)))
    parts = np.split(images, 5)
    for part, (down, right) in zip(parts, ((1, 1), (2, 1), (0, 1), (1, 2), (1, 0)), strict=True):
        np.testing.assert_array_equal(part, framed[:, :, down : down + 8, right : right + 8])


def test_sorting_asks_for_the_sorted_digits_behind_the_separator() -> None:
    inputs, targets = datasets.sorting_examples(50, seed=3, length=4)
    assert inputs.shape == targets.shape == (50, 8)
    for tokens, wanted in zip(inputs, targets, strict=True):
        assert tokens[4] == datasets.SEPARATOR
        assert list(wanted[:4]) == [datasets.IGNORED] * 4
        assert list(wanted[4:]) == sorted(tokens[:4])
        assert list(tokens[5:]) == sorted(tokens[:4])[:-1]


def test_no_question_of_the_test_part_was_trained_on() -> None:
    data = datasets.sorting()
    trained = {row.tobytes() for row in np.asarray(data.train_inputs)[:, : datasets.SORT_LENGTH]}
    asked = [row.tobytes() for row in np.asarray(data.test_inputs)[:, : datasets.SORT_LENGTH]]
    assert len(asked) == 2000
    assert not trained.intersection(asked)


def test_nothing_to_make_is_refused() -> None:
    with pytest.raises(ValueError, match="length"):
        datasets.sorting_examples(0, seed=0)
