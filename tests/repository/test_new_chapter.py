"""What `make chapter` writes says what is true before its author changes a word."""

import numpy as np

from scripts.chapter import study


def test_the_numbers_of_a_new_chapter_are_what_they_are_called() -> None:
    calls = study.additions([10, 1000], repeats=6)
    for call in calls:
        assert call.each.unit == "s"
        np.testing.assert_allclose(call.each.samples, np.array(call.seconds.samples) / call.numbers)
    short, long = (call.each.median for call in calls)
    np.testing.assert_allclose(study.short_over_long(calls).median * long, short)
    assert calls[0].predicted.value == long
