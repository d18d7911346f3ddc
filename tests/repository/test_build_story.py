"""What a build tells of itself, line by line, on a terminal and in a log."""

import io
from typing import Any

import pytest
from rich.console import Console

from scripts.building.story import Story, display_of


def page(name: str, *, seconds: float | None = None, why: str | None = None, **facts: Any) -> dict[str, Any]:
    common = {"left_out": False, "cells": 1, "runs": why is not None}
    return {"page": name, **common, "why": why, "seconds": seconds, **facts}


PLAN: dict[str, Any] = {
    "event": "plan",
    "pages": [
        page("index", cells=0),
        page("machine", seconds=10.0, why="its cells changed"),
        page("profiling"),
        page("roofline", seconds=20.0, why="tinytorch changed (perf.timing)"),
        page("new", why="it runs here for the first time"),
        page("other", cells=0, left_out=True),
    ],
}


def told(story: Story, *events: dict[str, Any]) -> list[str | None]:
    return [story.take(event) for event in events]


def test_each_page_says_what_becomes_of_it_why_and_how_much_is_left() -> None:
    story = Story()
    ran = {"machine": 12.0, "roofline": 20.0, "new": 3.0}
    events = [PLAN]
    for one in PLAN["pages"]:
        events.append({"event": "page", "page": one["page"]})
        if one["runs"]:
            events.append({"event": "ran", "page": one["page"], "seconds": ran[one["page"]]})
    assert told(story, *events, {"event": "writing"}, {"event": "page", "page": "machine"}) == [
        "6 pages to read, 3 of them to run, about 45 s.",
        "  1 of 6  index has no cells",
        "  2 of 6  machine runs (about 10 s), because its cells changed",
        "          machine ran in 12 s; about 34 s left",
        "  3 of 6  profiling is taken from the cache",
        "  4 of 6  roofline runs (about 20 s), because tinytorch changed (perf.timing)",
        "          roofline ran in 20 s; about 16 s left",
        "  5 of 6  new runs, because it runs here for the first time",
        "          new ran in 3 s",
        "  6 of 6  other is left out",
        "Writing the pages.",
        None,
    ]
    assert story.done == 6
    unchanged = ({"event": "plan", "pages": []}, {"event": "writing"}, {"event": "page", "page": "machine"})
    assert told(Story(), *unchanged) == ["No page changed.", None, None], "read again for its other outcome"


PREPARING: list[dict[str, Any]] = [
    {"event": "preparing", "steps": 3, "seconds": 40.0},
    {"event": "prepared-step", "step": "trained GPT"},
    {"event": "prepared-step", "step": "kernels of loops"},
]


def test_what_is_trained_and_compiled_before_pages_is_told_at_its_begin_and_end() -> None:
    story = Story()
    lines = told(story, PLAN, *PREPARING)
    assert lines[1:] == [
        "Before that, training, compiling and measuring what they share (3 steps, about 40 s).",
        None,
        None,
    ]
    assert story.preparing == ("kernels of loops", 2, 3)
    assert told(story, {"event": "prepared", "seconds": 61.0}) == ["Trained, compiled and measured in 1 min 01 s."]
    assert story.preparing is None


def test_every_warning_is_shown_at_its_place_below_the_book() -> None:
    story = Story()
    told(story, *({"event": "warning", "where": f"/home/book/a.md:{n}", "text": "wrong"} for n in range(40)))
    assert story.complaints() == [f"  book/a.md:{n}: wrong" for n in range(40)]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_terminal_has_a_bar_and_a_log_has_not(terminal: bool) -> None:
    printed = io.StringIO()
    story = Story()
    console = Console(file=printed, force_terminal=terminal, width=100)
    with display_of(story, console) as take:
        for event in (PLAN, *PREPARING):
            take(event)
    with display_of(story, console) as take:  # a bar is drawn at its end
        for event in ({"event": "prepared", "seconds": 1.0}, {"event": "page", "page": "machine"}):
            take(event)
    text = printed.getvalue()
    assert "Before that, training, compiling and measuring what they share (3 steps, about 40 s)." in text
    assert ("kernels of loops" in text) is terminal
    assert "  2 of 6  machine runs (about 10 s), because its cells changed" in text
    assert ("\x1b[" in text) is terminal
    assert ("━" in text) is terminal
