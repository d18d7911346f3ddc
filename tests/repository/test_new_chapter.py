"""What `make chapter` writes says what is true before its author changes a word."""

from pathlib import Path

import numpy as np
import pytest

from scripts.chapter import study
from scripts.new_chapter import write_chapter


def test_the_numbers_of_a_new_chapter_are_what_they_are_called() -> None:
    calls = study.additions([10, 1000], repeats=6)
    for call in calls:
        assert call.each.unit == "s"
        np.testing.assert_allclose(call.each.samples, np.array(call.seconds.samples) / call.numbers)
    short, long = (call.each.median for call in calls)
    np.testing.assert_allclose(study.short_over_long(calls).median * long, short)
    assert calls[0].predicted.value == long


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
