"""Traces in Chrome's format: their events, once they hold what the format asks for."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema


def checked_events(path: Path, event: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a trace, each of which must be as the JSON Schema ``event`` says."""
    trace = json.loads(path.read_text(encoding="utf-8"))
    events = {"type": "array", "items": event}
    jsonschema.validate(trace, {"type": "object", "required": ["traceEvents"], "properties": {"traceEvents": events}})
    found: list[dict[str, Any]] = trace["traceEvents"]
    return found
