"""Traces in Chrome's format: their events, once they hold what the format asks for."""

import json
from pathlib import Path
from typing import Any

import jsonschema

_NUMBER = {"type": "number", "minimum": 0}
#: What the format asks of each kind of event.
_NEEDED = {
    "X": ["ts", "dur", "cat", "tid"],
    "b": ["ts", "cat", "id", "tid"],
    "e": ["ts", "cat", "id", "tid"],
    "s": ["ts", "cat", "id", "tid"],
    "f": ["ts", "cat", "id", "tid", "bp"],
    "C": ["ts"],
    "M": [],
}
_EVENT = {
    "type": "object",
    "required": ["name", "ph", "pid", "args"],
    "properties": {
        "name": {"type": "string", "minLength": 1},
        "ph": {"enum": list(_NEEDED)},
        "pid": {"type": "integer", "minimum": 0},
        "tid": {"type": "integer", "minimum": 0},
        "ts": _NUMBER,
        "dur": _NUMBER,
        "id": {"type": "integer"},
        "bp": {"const": "e"},
        "args": {"type": "object"},
    },
    "allOf": [
        *(
            {"if": {"properties": {"ph": {"const": phase}}}, "then": {"required": needed}}
            for phase, needed in _NEEDED.items()
        ),
        {
            "if": {"properties": {"ph": {"const": "C"}}},
            "then": {"properties": {"args": {"additionalProperties": _NUMBER}}},
        },
        {
            "if": {"properties": {"ph": {"const": "M"}}},
            "then": {"properties": {"name": {"enum": ["process_name", "process_sort_index", "thread_name"]}}},
        },
    ],
}


def events_of(path: Path) -> list[dict[str, Any]]:
    """Return the events of a trace, each of which must be as the format says."""
    trace = json.loads(path.read_text(encoding="utf-8"))
    events = {"type": "array", "items": _EVENT}
    jsonschema.validate(trace, {"type": "object", "required": ["traceEvents"], "properties": {"traceEvents": events}})
    found: list[dict[str, Any]] = trace["traceEvents"]
    return found
