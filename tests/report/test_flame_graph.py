"""Flame graphs: widths are shares of the time, boxes lie within those above, and the drawing is well-formed."""

import itertools
from xml.etree import ElementTree as ET

import pytest

from tests.perf.profiling.test_attribution import made_run
from tinytorch.perf.events.call_tree import Frame, call_tree
from tinytorch.report.flame_graph import LEAST, Box, boxes_html, boxes_svg, flame_boxes, timeline_boxes

SVG = "{http://www.w3.org/2000/svg}"


def test_each_box_is_as_wide_as_its_share_and_lies_in_the_one_above() -> None:
    boxes = {box.name: box for box in flame_boxes(call_tree(made_run()))}
    widths = {"run": 1, "step": 0.85, "loading": 0.1, "backward": 0.2, "relu": 0.1, "linear backward": 0.09}
    assert {name: boxes[name].width for name in widths} == pytest.approx(widths)
    below = [("step", "run"), ("loading", "step"), ("linear backward", "backward"), ("relu", "step")]
    for inner, outer in below:
        one, around = boxes[inner], boxes[outer]
        assert one.row > around.row
        assert around.left <= one.left + 1e-9
        assert one.left + one.width <= around.left + around.width + 1e-9
    assert "20.0% of the run" in boxes["backward"].detail


def test_boxes_of_one_row_do_not_overlap() -> None:
    for boxes in (flame_boxes(call_tree(made_run())), timeline_boxes(made_run())):
        rows: dict[int, list[Box]] = {}
        for box in boxes:
            rows.setdefault(box.row, []).append(box)
        for row in rows.values():
            placed = sorted(row, key=lambda box: box.left)
            for one, other in itertools.pairwise(placed):
                assert one.left + one.width <= other.left + 1e-9


def test_the_timeline_has_everything_where_it_ran() -> None:
    boxes = {(box.name, box.row): box for box in timeline_boxes(made_run())}
    names = ["step", "loading", "Net", "a", "linear", "relu", "backward", "linear backward"]
    assert {name for name, _ in boxes} == {*names}
    assert boxes["a", 2].left == pytest.approx(0.2)
    assert boxes["linear", 3].width == pytest.approx(0.1)
    assert boxes["linear backward", 2].look == "op"


def test_what_is_thinner_than_a_pixel_is_left_out() -> None:
    root = Frame("run", "run", calls=1, self_ns=10**7)
    root.within("thin", "op", "").self_ns = int(10**7 * LEAST / 2)
    assert [box.name for box in flame_boxes(root)] == ["run"]
    assert [box.name for box in flame_boxes(root, least=LEAST / 3)] == ["run", "thin"]


def test_names_are_text_and_the_drawing_is_well_formed() -> None:
    name = "<script>alert('x')</script> & \"more\""
    boxes = [Box(name, "1 ms", 0, 1, 0, "region"), Box("b", "2 ms", 0.25, 0.5, 1, "cannot tell")]
    drawn = ET.fromstring(boxes_svg(boxes, 44, "what").replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))
    first, second = drawn.findall(f"{SVG}svg")
    assert [part.text for part in first.findall(f"{SVG}text")] == [name]
    assert second.get("class") == "box cannot-tell"
    assert (second.get("x"), second.get("width"), second.get("y")) == ("25.0000%", "50.0000%", "22")
    assert [box.get("tabindex") for box in (first, second)] == ["0", "-1"], "one stop of the tab key"
    assert "<script>alert" not in boxes_html(boxes, key="k", label="l")
    with pytest.raises(ValueError, match="at least one box"):
        boxes_html([], key="k", label="l")
