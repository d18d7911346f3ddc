"""Records: what a page keeps of each number, word, table, figure and claim, as JSON with a schema."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cache
from importlib.resources import files
from typing import Any, cast

import numpy as np

from tinytorch.perf.measuring import Measurement, Statistic
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.report.numbers import FRACTIONS, interval_of, is_exact

#: The version of `record.schema.json`; it rises whenever a reader of the files would have to change.
SCHEMA_VERSION = 4
SCHEMA_NAME = "tinytorch-records"
NUMBER_KINDS = ("measured", "counted", "derived", "modelled")
#: The kind of what stands in place of a number, verdict, table or figure that this build did not measure.
ABSENT = "absent"
KINDS = (*NUMBER_KINDS, "verdict", "table", "figure", "claim", ABSENT, "provenance")
#: Why a verdict is "cannot tell here": other programs took the machine's time, so that it is withheld; what it rests on
#: was not measured; or noise leaves it open.
DISTURBED, UNMEASURED, NOISE = "disturbed", "not measured", "noise"
#: Units of what is computed from other numbers: ratios and shares.
_COMPUTED = FRACTIONS | {""}
_KEY = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """One entry of a page: ``kind`` is one of `KINDS`, ``body`` holds what `record.schema.json` says of it."""

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
    if not isinstance(key, str) or not _KEY.fullmatch(key):
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


def _interval_of(measurement: Measurement) -> Json | None:
    interval = interval_of(measurement)
    if interval is None:
        return None
    return {"low": interval.low, "high": interval.high, "confidence": interval.confidence}


def _kind_of_single(value: float, unit: str) -> str:
    """Return the kind of a single number that is not modelled: a ratio or a share is computed, never counted."""
    return "counted" if isinstance(value, int) and unit not in _COMPUTED else "derived"


def number_body(
    key: str,
    value: Measurement | int | float,
    *,
    unit: str | None,
    what: str | None,
    modelled: bool,
    derived: bool = False,
) -> Json:
    """Return kind, value, unit, interval, n, samples, what and how of a number.

    Args:
        derived: whether a bare whole number rests on measured ones, so that another run may find another.

    Raises:
        TypeError: if ``value`` is neither a `Measurement` nor a number.
        ValueError: if it is not finite, ``unit`` or ``what`` are missing or do not fit, or it is said to be of two
            kinds.
    """
    if derived and (modelled or isinstance(value, Measurement)):
        raise ValueError(f"{key!r} is {'modelled' if modelled else 'a Measurement'}, so leave out derived=True")
    if isinstance(value, Measurement):
        return _measurement_body(key, value, unit=unit, what=what, modelled=modelled)
    number = plain(value, f"value of {key!r}")
    if isinstance(number, bool) or not isinstance(number, int | float):
        raise TypeError(f"value of {key!r} must be a Measurement or a number, not {type(value).__name__}")
    if unit is None or what is None:
        raise ValueError(f"{key!r} is a bare number, so unit= and what= must say what it counts")
    return {
        "kind": "modelled" if modelled else "derived" if derived else _kind_of_single(number, unit),
        "value": number,
        "unit": unit,
        "interval": None,
        "n": 1,
        "samples": [number],
        "what": checked_text(what, "what", key),
        "how": {},
    }


def _measurement_body(key: str, value: Measurement, *, unit: str | None, what: str | None, modelled: bool) -> Json:
    if unit is not None and unit != value.unit:
        raise ValueError(f"unit of {key!r} must be left out or be the measurement's {value.unit!r}, not {unit!r}")
    exact = is_exact(value)
    single = exact or (value.n == 1 and value.unit in _COMPUTED)
    shown = int(value.median) if exact else value.median
    kind = "modelled" if modelled else _kind_of_single(shown, value.unit) if single else "measured"
    return {
        "kind": kind,
        "value": shown,
        "unit": value.unit,
        "interval": _interval_of(value),
        "n": value.n,
        "samples": list(value.samples),
        "what": checked_text(what or value.name, "what", key),
        "how": plain(value.how, f"how of {key!r}"),
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
    if "statistic" in body["how"] and (body["interval"] or body["n"] > 1):
        bounds = Interval(**body["interval"]) if body["interval"] else Interval(-math.inf, math.inf, math.nan)
        value = float(body["value"])
        return Statistic(body["what"], samples, body["unit"], body["how"], value=value, bounds=bounds)
    return Measurement(body["what"], samples, body["unit"], body["how"])


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
