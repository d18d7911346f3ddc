"""What `make chapter` writes says what is true before its author changes a word."""

from pathlib import Path

import pytest

from scripts.chapter import study
from scripts.new_chapter import write_chapter


def test_a_new_chapter_times_calls_in_turns_and_names_them_by_their_lengths() -> None:
    times = study.additions([10, 1000])
    assert list(times) == [10, 1000]
    assert {time.unit for time in times.values()} == {"s"}
    assert times[10].conditions.interleaved_with == ("1000",)


@pytest.mark.parametrize(
    ("name", "title", "said"),
    [
        ("Batching", "Batching", "NAME must be lower-case words"),
        ("taken", "Taken", "NAME must be new, but book/taken.md is there already"),
        ("batching", "A title that goes on for longer than any browser shows it", "TITLE cannot be used: the title"),
    ],
)
def test_a_chapter_that_a_later_check_would_refuse_is_not_written(
    tmp_path: Path, name: str, title: str, said: str
) -> None:
    (tmp_path / "book").mkdir()
    (tmp_path / "book" / "taken.md").touch()
    (tmp_path / "_toc.yml").write_text("parts:\n  - caption: Reference\n")
    with pytest.raises(ValueError, match=said):
        write_chapter(name, title + " and more" * (name == "batching"), tmp_path)
    assert not (tmp_path / "book" / "batching.md").exists()
