"""Kept results: where they lie, and that losing the place, or half of a file, loses no result."""

from pathlib import Path

import pytest

from tinytorch import kept, models
from tinytorch.models import weights


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
