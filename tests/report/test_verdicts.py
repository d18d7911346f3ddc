"""What a record keeps of a verdict, and that none rests on what other programs disturbed."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from tests.report.made_measurements import bounded
from tinytorch.perf.host.background_load import BackgroundLoad
from tinytorch.perf.measuring import Counted, Measurement, difference, ratio
from tinytorch.perf.measuring.comparison import compare_paired
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.judge import Verdict, decided, had_less_than_a_core, verdict_between
from tinytorch.report import Page
from tinytorch.report.numbers import number_body
from tinytorch.report.provenance import WITHHELD_WORD, caution
from tinytorch.report.records import page_file, schema
from tinytorch.report.tables import Column
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


#: The kinds of records that say a verdict.
KINDS = ("claim", "verdict")


def timed(share: float, threads: int = 1) -> Measurement:
    conditions = Conditions(cpu_per_wall=share, blas_threads=threads)
    return Measurement("work", (1.0, 1.1, 1.2, 1.3, 1.4, 1.5), "s", conditions)


def interleaved(before: float, after: float) -> tuple[Measurement, Measurement]:
    """Return two measurements taken in turns, of which one is twice as fast, with these shares of a core."""
    made = []
    for name, other, scale, share in (("before", "after", 2.0, before), ("after", "before", 1.0, after)):
        samples = tuple(scale * sample for sample in 5 * timed(1.0).samples)
        conditions = Conditions(cpu_per_wall=share, blas_threads=1, interleaved_with=(other,))
        made.append(Measurement(name, samples, "s", conditions))
    return made[0], made[1]


def of_both(before: float, after: float, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Return what verdicts on a ratio, a difference and a comparison of two come to, while others are busy."""
    monkeypatch.setattr(BackgroundLoad, "cores", lambda _: 1.0)
    page = Page("busy")
    one, other = interleaved(before, after)
    made = {
        "times": ratio(one, other),
        "more": difference(one, other, "more"),
        "compared": compare_paired(one, other, matters=0),
    }
    page.decide(made, "times", {"faster": ((1.2, None), ""), "slower": ((None, 1.2), ""), "open": (None, "")})
    page.decide(made, "more", {"more": ((0.1, None), ""), "less": ((None, 0.1), ""), "open": (None, "")})
    page.decide(made, "compared", dict.fromkeys(("faster", "slower", "open"), (None, "")))
    page.test("claim", ratio(one, other), above=1.2)
    return [record["outcome"] for record in page.records if record["kind"] in KINDS]


@pytest.mark.parametrize(("before", "after"), [(0.5, 1.0), (1.0, 0.5), (0.5, 0.5), (1.0, 1.0)])
def test_what_is_made_of_two_measurements_is_withheld_if_others_took_time_from_either(
    before: float, after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = of_both(before, after, monkeypatch)
    assert said == ["decided" if (before, after) == (1.0, 1.0) else "withheld"] * 4


@pytest.mark.parametrize(("before", "after"), [(0.5, 1.0), (1.0, 0.5), (1.0, 1.0)])
def test_verdicts_in_a_table_are_withheld_in_the_rows_that_were_disturbed(
    before: float, after: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BackgroundLoad, "cores", lambda _: 1.0)
    quiet, both = ratio(*interleaved(1.0, 1.0)), ratio(*interleaved(before, after))
    rows: list[dict[str, Any]] = [
        {"name": Verdict.FASTER, "gain": quiet, "verdict": Verdict.FASTER},
        {"name": Verdict.FASTER, "gain": both, "verdict": Verdict.FASTER},
        {"name": "open", "gain": both, "verdict": Verdict.OPEN},
        {"name": "none", "gain": None, "verdict": None},
    ]
    columns = [Column("name", "Name"), Column("gain", "Gain"), Column("verdict", "Verdict", judged=True)]
    page = Page("busy")
    table = page.table("gains", rows, columns, caption="Gains").record
    is_quiet = (before, after) == (1.0, 1.0)
    said = [row["verdict"] and (row["verdict"]["word"], row["verdict"]["outcome"]) for row in table["rows"]]
    faster, withheld = ("faster", "decided"), ("withheld, because other programs were running", "withheld")
    assert said == [faster, faster if is_quiet else withheld, ("open", "open"), None]
    assert [row["name"] for row in table["rows"]] == [Verdict.FASTER, Verdict.FASTER, "open", "none"]
    Draft202012Validator(schema()).validate(page_file("busy", page.records))


@pytest.mark.parametrize(
    ("share", "others", "threads", "withheld"),
    [(0.5, 1.0, 1, True), (1.0, 1.0, 1, False), (0.5, 0.0, 1, False), (0.5, 1.0, 2, False)],
    ids=["it waited for others", "it had its core", "it waited for itself", "what several threads should have"],
)
def test_claims_and_outcomes_are_judged_unless_they_rest_on_a_disturbed_number(
    share: float, others: float, threads: int, withheld: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BackgroundLoad, "cores", lambda _: others)
    page = Page("busy")
    made = {"time": timed(share, threads), "judged": verdict_between(timed(share, threads), low=0.1)}
    page.decide(made, "time", {"slow": ((0.1, None), ""), "quick": ((None, 0.1), ""), "open": (None, "")})
    page.fill(made, "judged")
    page.test("slow", timed(share, threads), above=0.1)
    outcome, word, claim = (record for record in page.records[-3:])
    assert [each["outcome"] for each in (outcome, word, claim)] == ["withheld" if withheld else "decided"] * 3
    assert claim["verdict"] == ("withheld" if withheld else Verdict.SUPPORTED)
    assert outcome["text"] == ("withheld" if withheld else "slow")
    assert (outcome["because"] == WITHHELD_WORD) is withheld
    assert word["word"] == ("withheld, because other programs were running" if withheld else "supported")


def test_what_is_open_is_not_withheld(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(BackgroundLoad, "cores", lambda _: 1.0)
    page = Page("busy")
    page.decide(
        {"time": timed(0.5)}, "time", {"slow": ((1.2, None), ""), "quick": ((None, 1.2), ""), "open": (None, "")}
    )
    page.test("claim", timed(0.5), above=1.2)
    assert [record["outcome"] for record in page.records[-2:]] == ["open", "open"]
    Draft202012Validator(schema()).validate(page_file("busy", page.records[:-1]))


@pytest.mark.parametrize("share", [0.5, 1.0])
def test_what_was_tested_withholds_its_verdict_whatever_row_and_reason_name(
    share: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BackgroundLoad, "cores", lambda _: 1.0)
    page, found = Page("busy"), verdict_between(timed(share), high=9.0)
    rows, columns = [{"a": timed(0.5), "b": found, "c": decided(True)}], {"a": "A", "b": "B", "c": "C"}
    (row,) = page.table("t", rows, columns, caption="One.").record["rows"]
    assert row["b"]["outcome"] == ("withheld" if share < 1 else "decided")
    assert row["c"]["outcome"] == "decided"


def test_what_the_conditions_do_not_say_is_not_known() -> None:
    assert had_less_than_a_core(Conditions(blas_threads=1)) is None
    assert had_less_than_a_core(Conditions(cpu_per_wall=0.1)) is None


def test_a_page_is_called_disturbed_if_many_of_its_numbers_were() -> None:
    quiet, busy = (number_body("key", timed(share)) for share in (1.0, 0.4))
    assert caution([]) is None
    assert caution([quiet] * 9 + [busy] * 1) is None
    said = caution([quiet] * 3 + [busy] * 1)
    assert said is not None
    assert said.startswith("1 of the 4 numbers timed on one thread had less than 90% of a core")
