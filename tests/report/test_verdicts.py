"""What a record keeps of a verdict, and the numbers in the words of a claim."""

import pytest

from tests.report.made_numbers import bounded
from tinytorch.perf.measuring import Counted, Measurement
from tinytorch.report import Page
from tinytorch.report.verdicts import placeholders, split_at_placeholders


def test_text_is_split_at_its_numbers() -> None:
    assert split_at_placeholders("{a}, {b:c}.") == [("", "a"), (", ", "b:c"), (".", None)]
    assert placeholders("no numbers", "k") == []


@pytest.mark.parametrize("text", ["{", "}", "{a", "{A b}", "{}", "{{a}}", "{a:.2f}"])
def test_braces_hold_keys_only(text: str) -> None:
    with pytest.raises(ValueError, match="braces"):
        placeholders(text, "key")


@pytest.mark.parametrize(
    ("measured", "interval", "more"),
    [
        (bounded(1.0, 0.9, 1.2), (0.9, 1.2, 0.95), {}),
        (Measurement("a run", (1.5,), "s"), None, {}),
        (Counted(4096, "B", "weights"), (4096, 4096, 0.95), {"counted": True}),
    ],
)
def test_a_record_keeps_the_interval_of_each_test_of_a_single_sample_none_and_of_a_count_that_it_is_one(
    measured: Measurement, interval: tuple[float, float, float] | None, more: dict[str, bool]
) -> None:
    page = Page("p")
    page.number("it", measured)
    (made,) = page.test("w", measured, at_least=0.5).record["tests"]
    assert (made["interval"] and tuple(made["interval"].values())) == (interval and pytest.approx(interval))
    assert {name: value for name, value in made.items() if name == "counted"} == more
