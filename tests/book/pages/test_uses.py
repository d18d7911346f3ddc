"""What a page calls in a made package: by import and by what a chapter's functions call, never by spelling."""

from pathlib import Path

import pytest
from measured_book.execution.closure import SourcePackage
from measured_book.pages.uses import Uses

MODULES = {
    "__init__": "",
    "perf/__init__": "from ship.perf.engine import Engine, power\nfrom ship.perf.identity import identity",
    "perf/engine": "class Engine: ...\ndef power(): ...\ndef unused(): ...",
    "perf/identity": "def identity(): ...",
    "perf/sail": "class Sail: ...\nclass Engine: ...",
    "chapters/__init__": "",
    "chapters/tour/__init__": "from ship.chapters.tour.parts import Engine, begin",
    "chapters/tour/parts": """
from ship import perf
from ship.perf import sail
from ship.perf.engine import Engine as Power

STEPS = {"one": lambda: perf.power()}

class Engine:
    def start(self) -> Power:
        return self.start()

def begin(given: sail.Sail) -> Power:
    sail = given
    return sail.Engine(), finish()

def finish():
    from ship.perf.identity import identity
    return [step for step in STEPS], identity

def elsewhere():
    return sail.Sail()
""",
}


@pytest.fixture
def uses(tmp_path: Path) -> Uses:
    for name, text in MODULES.items():
        path = tmp_path / "ship" / f"{name}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    return Uses(SourcePackage(tmp_path / "ship"), "ship.chapters")


@pytest.mark.parametrize(
    ("cell", "expected"),
    [
        ("from ship.perf import power\npower()", {"ship.perf.engine.power"}),
        ("from ship.perf import power as p\np()", {"ship.perf.engine.power"}),
        ("import ship.perf\nship.perf.Engine.made()", {"ship.perf.engine.Engine"}),
        ("import ship.perf.sail as s\ns.Sail", {"ship.perf.sail.Sail"}),
        ("from ship.perf import identity\nidentity.identity()", {"ship.perf.identity.identity"}),
        ("from ship.perf import power", set()),
        ("from ship.perf import power\ndef later(power):\n    return power", set()),
        ("from ship.perf import Engine\nengine: Engine = None\ndef later(x: Engine) -> Engine: ...", set()),
        ("power()", set()),
        ("import numpy as np\nnp.Engine()", set()),
        ("%magic\nfrom ship.perf import power\npower()", set()),
    ],
)
def test_a_name_is_what_it_was_imported_as(uses: Uses, cell: str, expected: set[str]) -> None:
    assert uses.of([cell]) == expected


def test_a_class_of_a_chapter_is_not_that_of_the_same_name_elsewhere(uses: Uses) -> None:
    assert uses.of(["from ship.chapters.tour import Engine", "Engine().start()"]) == set()


def test_what_a_chapter_s_function_calls_counts_also_by_way_of_others(uses: Uses) -> None:
    cells = ["from ship.chapters import tour", "tour.begin(1)"]
    assert uses.of(cells) == {"ship.perf.engine.power", "ship.perf.identity.identity"}


def test_what_no_cell_leads_to_does_not_count(uses: Uses) -> None:
    cells = ["from ship.chapters.tour import parts", "parts.finish()"]
    assert "ship.perf.sail.Sail" not in uses.of(cells)
    assert uses.of([*cells, "parts.elsewhere()"]) >= {"ship.perf.sail.Sail"}
