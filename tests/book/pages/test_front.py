"""The parts of the first page, and of the lists that the book makes of itself."""

from pathlib import Path
from types import SimpleNamespace

import pytest
import yaml
from measured_book.pages.front import CITATION, bibtex, commands
from measured_book.pages.lists import environment_seconds, prepared_seconds
from measured_book.sources.repository import Repository

from scripts import environment
from scripts.building.preparation import Memory
from tinytorch.chapters.preparation import Step

BOOK = Path(__file__).resolve().parents[3] / "book"


def test_a_known_repository_is_cloned_first() -> None:
    assert commands(None, ["make book"]) == "make book"
    lines = commands(Repository("https://github.com/someone/book"), ["make book", "make serve"])
    assert lines == "git clone https://github.com/someone/book && cd book\nmake book\nmake serve"


def test_the_entry_to_cite_names_authors_title_and_version() -> None:
    cited = yaml.safe_load((BOOK / CITATION).read_text("utf-8"))
    entry = bibtex(cited)
    assert cited["title"] in entry
    assert cited["version"] in entry
    assert entry.count("{") == entry.count("}")
    people = [{"family-names": "Doe", "given-names": "Jo"}, {"name": "A group"}]
    assert "author = {Doe, Jo and {A group}}" in bibtex({**cited, "authors": people})


def test_an_environment_says_how_long_it_took_and_one_of_before_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tmp_path / ".venv"
    assert environment_seconds(made) is None
    monkeypatch.setattr(environment, "make", lambda folder, *_: folder.mkdir())
    clock = iter((100.0, 112.5))
    monkeypatch.setattr(environment, "time", SimpleNamespace(monotonic=lambda: next(clock)))
    environment.ensure(made, environment.ROOT / "requirements.lock", None, None)
    assert environment_seconds(made) == 12.5
    assert environment.is_made(made, environment.fingerprint(environment.ROOT / "requirements.lock", ["", ""]))
    (made / environment.STAMP).write_text("fingerprint\n")
    assert environment_seconds(made) is None


def test_steps_are_added_up_by_their_work(tmp_path: Path) -> None:
    assert prepared_seconds(tmp_path, "training") == (0, None)
    memory = Memory(tmp_path / "prepared.json", {"training": "a", "compiling": "b"}, tmp_path)
    one, two = Step("one", "training", print, {"page"}, 1), Step("two", "compiling", print, {"page"}, 1)
    memory.add([(one, 2.0), (two, 3.0)])
    memory.add([(Step("three", "training", print, {"page"}, 1), 0.5)])
    assert prepared_seconds(tmp_path, "training") == (2, 2.5)
    assert prepared_seconds(tmp_path, "compiling") == (1, 3.0)
