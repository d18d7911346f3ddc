"""Records: what a page keeps of each number, word, table, figure and claim, as JSON with a schema."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, TypeGuard, cast

import numpy as np

from tinytorch import settings
from tinytorch.perf.measuring import Counted, Derived, Measurement, Modelled, Quoted
from tinytorch.perf.measuring.codec import from_json, measured, to_json
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.measuring.values import Value, as_measurement, is_clocked
from tinytorch.prose import KEY
from tinytorch.report.numbers import RATIOS, interval_of, is_exact

#: The version of `record.schema.json`; it rises whenever a reader of the files would have to change.
SCHEMA_VERSION = 6
SCHEMA_NAME = "tinytorch-records"
NUMBER_KINDS = ("measured", "counted", "derived", "modelled", "quoted")
#: The kind of what stands in place of a number, verdict, table or figure that this build did not measure.
ABSENT = "absent"
#: The MIME type under which records stand in the outputs of an executed notebook.
RECORD_MIME = "application/vnd.tinytorch.record+json"
#: The MIME type of what a page's text names and its cells do not give: ``name`` and ``said``.
FAULT_MIME = "application/vnd.tinytorch.fault+json"

Json = dict[str, Any]


def is_building() -> bool:
    """Return whether the cells run for the book's build, not for a reader."""
    return bool(settings.SETTINGS.building_book)


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of a page: ``body`` holds what `record.schema.json` says of it."""

    key: str
    kind: str
    page: str
    when: str
    body: Json

    def to_json(self) -> Json:
        """Return the record as one flat JSON object."""
        return {"key": self.key, "kind": self.kind, "page": self.page, "when": self.when, **self.body}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """Return the record that `to_json` wrote.

        Raises:
            ValueError: if one of key, kind, page and when is missing.
        """
        missing = [name for name in ("key", "kind", "page", "when") if name not in data]
        if missing:
            raise ValueError(f"data must be a record with key, kind, page and when, but lacks {', '.join(missing)}")
        body = {name: value for name, value in data.items() if name not in ("key", "kind", "page", "when")}
        return cls(data["key"], data["kind"], data["page"], data["when"], body)


@cache
def schema() -> Json:
    """Return the JSON Schema (2020-12) of a page's file of records."""
    return cast(Json, json.loads(files("tinytorch.report").joinpath("record.schema.json").read_text("utf-8")))


def checked_key(key: str) -> str:
    """Return ``key``, or raise ValueError if it is not lower-case words joined by hyphens."""
    if not isinstance(key, str) or not KEY.fullmatch(key):
        raise ValueError(f"key must be lower-case words joined by hyphens, such as 'mlp-latency', not {key!r}")
    return key


def checked_text(text: str, name: str, key: str) -> str:
    """Return ``text`` without outer space, or raise ValueError naming ``name`` and ``key`` if nothing is left."""
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"{name} of {key!r} must be words, not {text!r}: a page would show nothing there")
    return text.strip()


def now() -> str:
    """Return the time now in UTC, ISO 8601, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def plain(value: Any, name: str) -> Any:
    """Return ``value`` as what JSON can hold: NumPy's scalars and arrays become numbers and lists.

    Raises:
        ValueError: if a number in it is not finite.
        TypeError: if it holds anything else than text, numbers, booleans, None, lists and mappings.
    """
    if isinstance(value, np.generic | np.ndarray):
        value = value.tolist()
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{name} must be finite, not {value}: a page cannot show it")
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(item, f"{name}[{key!r}]") for key, item in value.items()}
    if isinstance(value, Sequence):
        return [plain(item, name) for item in value]
    raise TypeError(f"{name} must be text, numbers, lists or mappings, not {type(value).__name__}")


def _kind_of(value: Value, exact: bool) -> Json:
    """Return a value's kind, and what it was derived from, what modelled it or who published it."""
    match value:
        case Modelled():
            return {"kind": "modelled", "model": value.model}
        case Quoted():
            return {"kind": "quoted", "source": value.source}
        case Derived():
            reason = {"no_interval": value.no_interval} if value.no_interval else {}
            return {"kind": "derived", "of": list(value.names), **reason}
        case Measurement() if value.is_counted and value.conditions.sides:
            return {"kind": "derived", "of": [side.name for side in value.conditions.sides]}
    return {"kind": "counted" if exact or isinstance(value, Counted) else "measured"}


def checked_value(name: str, value: Value | int, *, unit: str | None, what: str | None) -> Value:
    """Return the value that ``name`` has; a bare whole number was counted.

    Raises:
        TypeError: if it is no number.
        ValueError: if it is a bare number whose kind nobody knows, or has no unit or words.
    """
    if isinstance(value, Value):
        if unit is not None and unit != value.unit:
            raise ValueError(f"unit of {name} must be left out or be the measurement's {value.unit!r}, not {unit!r}")
        return value
    number = plain(value, f"value of {name}")
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError(f"value of {name} must be a Measurement or a number, not {type(value).__name__}")
    if isinstance(number, float) or (unit is not None and (is_clocked(unit) or unit in RATIOS)):
        raise ValueError(
            f"{name} is the bare number {number!r}, which does not say where it comes from: hand over what measure() "
            "or interleave() returned if a clock took it, else Counted, Derived, Modelled or Quoted"
        )
    if unit is None or what is None:
        raise ValueError(f"{name} is the bare whole number {number}: say what was counted with unit= and what=")
    return Counted(number, unit, what)


def number_body(key: str, value: Value | int, *, unit: str | None = None, what: str | None = None) -> Json:
    """Return kind, value, unit, interval, n, samples, what and how of a number, and what its kind has besides.

    Raises:
        TypeError, ValueError: as `checked_value` does, or if there are no words for what it is.
    """
    known = checked_value(repr(key), value, unit=unit, what=what)
    measured = as_measurement(known)
    interval = interval_of(measured)
    exact = is_exact(measured)
    return {
        **_kind_of(known, exact),
        "value": int(measured.median) if exact else measured.median,
        "unit": known.unit,
        "interval": interval and asdict(interval),
        "n": measured.n,
        "samples": list(measured.samples),
        "what": checked_text(what or (known.name if isinstance(known, Measurement) else known.what), "what", key),
        "conditions": to_json(measured.conditions),
    }


def measurement_from_record(record: Record | Mapping[str, Any]) -> Measurement:
    """Return the `Measurement` that a number's record was made of: same samples, unit, name and conditions.

    Raises:
        ValueError: if the record is not one of a number.
    """
    body = record.to_json() if isinstance(record, Record) else record
    if body.get("kind") not in NUMBER_KINDS:
        raise ValueError(f"record {body.get('key')!r} must hold a number, but its kind is {body.get('kind')!r}")
    samples = tuple(float(s) for s in body["samples"])
    conditions = conditions_of_record(body)
    made = measured(body["what"], samples, body["unit"], conditions, body["value"], body["interval"])
    return made if body["interval"] is None else replace(made, confidence=body["interval"]["confidence"])


def is_number(cell: object) -> TypeGuard[Json]:
    """Return whether a cell of a table's record is a number: neither text nor a verdict."""
    return isinstance(cell, Mapping) and "value" in cell


def conditions_of_record(number: Mapping[str, Any]) -> Conditions:
    """Return the conditions of a number's record, or of a table's cell."""
    return from_json(number["conditions"], Conditions, f"conditions of {number['what']!r}")


def page_file(page: str, records: Sequence[Record], *, duration_seconds: float | None = None) -> Json:
    """Return a page's file of records, as `record.schema.json` describes it.

    Raises:
        ValueError: if the page has no provenance record, which says where the others were made.
    """
    where = [record for record in records if record.kind == "provenance"]
    if not where:
        raise ValueError(f"page {page!r} must have a provenance record: make its Page({page!r}) first")
    return {
        "schema": SCHEMA_NAME,
        "schema_version": SCHEMA_VERSION,
        "page": page,
        "duration_seconds": duration_seconds,
        "provenance": {"when": where[0].when, **where[0].body},
        "records": [record.to_json() for record in records if record.kind != "provenance"],
    }
