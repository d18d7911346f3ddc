"""Files of measurements: what a page made comes back whole, and what is broken or hostile is refused with a reason."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.report.made_measurements import made_measurements, made_page
from tinytorch.report.measurements import (
    LARGEST_BYTES,
    as_text,
    document,
    numbers_of,
    page_entry,
    parse,
    problems,
    read_measurements,
    schema,
)

PAGE = made_page()
GOOD = document("A machine", [page_entry(PAGE)], note="shared")


def test_a_file_keeps_each_number_and_drops_samples(tmp_path: Path) -> None:
    Draft202012Validator.check_schema(schema())
    (tmp_path / "m.json").write_text(as_text(GOOD), "utf-8")
    back = read_measurements(tmp_path / "m.json")
    assert back == GOOD
    latency = next(record for record in back["pages"][0]["records"] if record["key"] == "latency")
    original = next(record for record in PAGE["records"] if record["key"] == "latency")
    assert latency == {name: original[name] for name in ("key", "kind", "value", "unit", "interval", "n", "what")}
    assert "samples" not in as_text(GOOD)
    lines = as_text(GOOD).splitlines()
    for record in GOOD["pages"][0]["records"]:
        assert sum(json.dumps(record["key"]) in line and '"kind"' in line for line in lines) == 1, "a line of its own"
    roofs = next(record for record in back["pages"][0]["records"] if record["key"] == "roofs")
    assert {number["value"] for number in numbers_of(roofs)} >= {100e9, 400e9, 10e9, 32 * 1024}


def changed(path: list[Any], value: Any) -> Any:
    made = copy.deepcopy(GOOD)
    place = made
    for name in path[:-1]:
        place = place[name]
    place[path[-1]] = value
    return made


LATENCY = ["pages", 0, "records", 0]


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([], "not a file of measurements"),
        ({"schema": "tinytorch-records"}, "not a file of measurements"),
        (changed(["schema_version"], 99), "schema_version must be 3, not 99"),
        (changed(["label"], " "), "label"),
        (changed(["pages"], []), "pages"),
        (changed([*LATENCY, "value"], "fast"), "value"),
        (changed([*LATENCY, "value"], True), "value"),
        (changed([*LATENCY, "value"], float("inf")), "beyond"),
        (changed([*LATENCY, "value"], 10**400), "beyond"),
        (changed([*LATENCY, "interval", "low"], 5.0), "lower end is above"),
        (changed([*LATENCY, "n"], 0), "n"),
        (changed([*LATENCY, "kind"], "guess"), "kind"),
        (changed([*LATENCY, "key"], "__proto__"), "key"),
        (changed([*LATENCY, "key"], "bound"), "two records have the same key"),
        (changed([*LATENCY, "what"], "x" * 5000), "5000 characters"),
        (changed(["pages", 0, "page"], "../secret"), "page"),
        (changed(["pages"], GOOD["pages"] * 2), "two entries belong to the same page"),
        (changed(["pages"], [1] * 5000), "5000 entries"),
        (changed(["note"], {"a": {"b": [[[[[[[[[[[[1]]]]]]]]]]]]}}), "nested deeper"),
        (changed(["surprise"], 1), "surprise"),
        (changed(["pages", 0, "provenance", "numpy"], 2), "numpy"),
        (changed(["pages", 0, "provenance", "when"], "yesterday"), "a date and a time, not 'yesterday'"),
    ],
)
def test_what_breaks_a_rule_is_refused_with_its_place(given: Any, reason: str) -> None:
    assert reason in next(problems(given), "")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "must be JSON"),
        (b"\xff\xfe\x00", "must be JSON"),
        (b"{", "must be JSON"),
        (b'{"a": NaN}', "NaN is not a JSON number"),
        (b'{"a": 1, "a": 2}', "same name twice"),
        (b"[" * 100_000, "must be JSON"),
        (b" " * (LARGEST_BYTES + 1), "larger than 4 MiB"),
    ],
)
def test_what_is_no_json_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=f"file.json.*{reason}"):
        parse(content, "file.json")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


def _places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for name, item in inside for place in _places(item, (*path, name)))]


PLACES = [place for place in _places(GOOD) if place]


@given(place=st.sampled_from(PLACES), value=json_values)
def test_whatever_stands_anywhere_is_taken_or_refused_in_words(place: tuple[Any, ...], value: Any) -> None:
    text = json.dumps(changed(list(place), value)).encode()
    try:
        made = parse(text, "file.json")
    except ValueError as error:
        assert str(error).startswith("file.json ")  # noqa: PT017
    else:
        records = [record for page in made["pages"] for record in page["records"]]
        assert all(abs(number["value"]) <= 1e100 for record in records for number in numbers_of(record))


def test_a_column_may_be_a_path_of_attributes() -> None:
    made = made_measurements()
    table = next(record for record in made["pages"][0]["records"] if record["kind"] == "table")
    table["columns"][3]["key"] = "compared.estimate"
    assert list(problems(made)) == []
