"""Flame graphs and timelines: boxes in rows under one another, as SVG that can be searched and walked by keys.

A flame graph has a box for each stack of frames, as wide as its share of the time; what runs in a frame stands below it
(B. Gregg, The Flame Graph, Communications of the ACM 59(6), 2016, upside down). The drawing needs no script: each box
has its words as a title. `SCRIPT` adds the zoom, the search and the keys, in a page that may hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tinytorch.perf.events.call_tree import Frame
from tinytorch.perf.events.stream import COLLECTOR, Profile
from tinytorch.report.drawings import WIDTH, Drawing, text_width
from tinytorch.report.numbers import format_number

#: Boxes below this share of the width are left out: on the widest screen they would be thinner than a pixel.
LEAST = 5e-4
#: Units of a row of a drawing, and the colours of its boxes by their look; the run itself has none.
_LINE = 27.0
_COLORS = {"op": "backward", "module": "forward", "region": "update", "collector": "waiting"}
#: Pixels of a row, with the gap below it.
_ROW, _BOX = 22, 20


@dataclass(frozen=True, slots=True)
class Box:
    """One box: its name, what else is to be said of it, where it stands (0 to 1), its row, and its look.

    ``look`` is a kind of frame, or a word of a comparison: see `STYLE`.
    """

    name: str
    detail: str
    left: float
    width: float
    row: int
    look: str


def flame_boxes(root: Frame, look: Callable[[tuple[str, ...], Frame], tuple[str, str]] | None = None) -> list[Box]:
    """Return the boxes of a call tree, each before those below it, the widest first.

    Args:
        root: of `call_tree`.
        look: gives a frame, by the names on the way to it, its look and further words; by default its kind.
    """
    whole = max(root.total_ns, 1)
    boxes: list[Box] = []

    def visit(frame: Frame, names: tuple[str, ...], left: float, total: int) -> None:
        width = total / whole
        if width < LEAST:
            return
        shown, more = look(names, frame) if look else (frame.kind, "")
        own = frame.self_ns / whole
        said = [f"{_seconds(total)}, {width:.1%} of the run", f"{own:.1%} in itself", f"{frame.calls:,} calls"]
        if not frame.calls:
            said.pop()
        boxes.append(Box(frame.name, ", ".join([*said, more] if more else said), left, width, len(names), shown))
        inner = sorted(((one.total_ns, one) for one in frame.inner.values()), key=lambda pair: -pair[0])
        for part, one in inner:
            visit(one, (*names, one.name), left, part)
            left += part / whole

    visit(root, (), 0.0, root.total_ns)
    return boxes


def timeline_boxes(profile: Profile) -> list[Box]:
    """Return the boxes of a run by time: regions, modules, ops and the collector as they ran, the longest of them."""
    whole = max(profile.end - profile.start, 1)
    boxes: list[Box] = []
    running: list[int] = []
    for start, end, _, name, kind in sorted(_intervals(profile, whole), key=lambda one: (one[0], -one[1], one[2])):
        while running and running[-1] <= start:
            running.pop()
        left = (start - profile.start) / whole
        words = f"{_seconds(end - start)} from {_seconds(start - profile.start)} on"
        boxes.append(Box(name, words, left, (end - start) / whole, len(running), kind))
        running.append(end)
    return boxes


def _intervals(profile: Profile, whole: int) -> Iterator[tuple[int, int, int, str, str]]:
    """Yield start, end, rank of two alike, name and kind of all that is wide enough to be seen."""
    least = LEAST * whole
    for region in profile.regions:
        if region.end - region.start >= least:
            yield region.start, region.end, 0, region.name, "collector" if region.name == COLLECTOR else "region"
    for span in profile.spans:
        if span.end - span.start >= least:
            yield span.start, span.end, 1 + span.depth, span.path.rsplit(".", 1)[-1] or span.module, "module"
    columns = profile.columns
    for index in (columns.end - columns.start >= least).nonzero()[0].tolist():
        event = columns[index]
        name = event.op if event.phase == "forward" else f"{event.op} {event.phase}"
        yield event.start, event.end, 10**6, name, "op"


def flame_drawing(root: Frame, rows: int = 6) -> Drawing:
    """Return the first ``rows`` rows of a flame graph as a drawing for a page of the book, words where they fit."""
    shown = [box for box in flame_boxes(root) if box.row < rows]
    drawing = Drawing(_LINE * (1 + max(box.row for box in shown)) + 4)
    for box in shown:
        width = box.width * (WIDTH - 4) - 1
        if width < 1:
            continue
        words = box.name if text_width(box.name) + 6 <= width else ""
        drawing.box(
            2 + box.left * (WIDTH - 4), 2 + box.row * _LINE, width, _LINE - 3, words, color=_COLORS.get(box.look)
        )
    return drawing


def _seconds(nanoseconds: int) -> str:
    return str(format_number(nanoseconds * 1e-9, "s"))


def boxes_html(boxes: Sequence[Box], *, key: str, label: str) -> str:
    """Return boxes as an element that `STYLE` and `SCRIPT` know: a field to search in, and the drawing.

    Raises:
        ValueError: if there are none.
    """
    if not boxes:
        raise ValueError("boxes must hold at least one box")
    height = _ROW * (1 + max(box.row for box in boxes))
    return (
        f'<div class="boxes" id="{escape(key)}">\n'
        f'<p class="boxes-bar"><label>Search <input type="search" autocomplete="off"></label> '
        f'<button type="button">Whole run</button> <output aria-live="polite"></output></p>\n'
        f"{boxes_svg(boxes, height, label)}\n</div>"
    )


def boxes_svg(boxes: Sequence[Box], height: float, label: str) -> str:
    """Return the drawing alone, as wide as its place: what needs no script."""
    return (
        f'<svg class="boxes-drawing" width="100%" height="{height:g}" role="group" aria-label="{escape(label)}">\n'
        + "\n".join(_box(box, first=index == 0) for index, box in enumerate(boxes))
        + "\n</svg>"
    )


def _box(box: Box, first: bool) -> str:
    words = escape(f"{box.name}: {box.detail}")
    return (
        f'<svg class="box {escape(box.look.replace(" ", "-"))}" x="{box.left:.4%}" y="{box.row * _ROW}" '
        f'width="{box.width:.4%}" height="{_BOX}" data-left="{box.left:.7f}" data-width="{box.width:.7f}" '
        f'data-row="{box.row}" tabindex="{0 if first else -1}" role="img" aria-label="{words}">'
        f'<title>{words}</title><rect width="100%" height="100%"/><text x="4" y="14">{escape(box.name)}</text></svg>'
    )


#: How boxes look, in light and dark.
STYLE = """
.boxes-drawing { display: block; overflow: hidden; }
.boxes-drawing text { font: 12px system-ui, sans-serif; fill: #111; pointer-events: none; }
.boxes-bar { display: flex; gap: 1rem; align-items: center; flex-wrap: wrap; margin: .5rem 0; }
.box { cursor: pointer; } .box rect { fill: #c9d3d6; stroke: Canvas; }
.box.op rect { fill: #f2b45c; } .box.module rect { fill: #8cc7d3; } .box.region rect { fill: #b9a9dd; }
.box.collector rect { fill: #e58f8f; } .box.run rect { fill: #d5d5cf; }
.box.faster rect { fill: #7fb3f5; } .box.slower rect { fill: #f39a6b; } .box.the-same rect { fill: #dcdcd6; }
.box.cannot-tell rect { fill: #eeeeea; } .box.only-one rect { fill: #d8b4d0; }
.box.unfound rect { fill-opacity: .3; } .box.found rect { stroke: #c2007a; stroke-width: 3; }
.box:focus { outline: none; } .box:focus-visible rect { stroke: CanvasText; stroke-width: 3; }
"""

#: Zoom by a click or Enter, Escape for the whole, arrows to walk, / to search: as a classic script.
SCRIPT = """
(() => {
  for (const part of document.querySelectorAll(".boxes")) {
    const boxes = Array.from(part.querySelectorAll(".box"), (element) => ({
      element, left: Number(element.dataset.left), width: Number(element.dataset.width),
      row: Number(element.dataset.row), name: element.querySelector("text").textContent,
    }));
    const field = part.querySelector("input"), said = part.querySelector("output");
    const right = (box) => box.left + box.width, close = 1e-6;
    const within = (box, outer) => box.left >= outer.left - close && right(box) <= right(outer) + close;
    const zoom = (to) => {
      for (const box of boxes) {
        const around = box.row <= to.row && within(to, box), inside = box.row > to.row && within(box, to);
        const shown = around || inside;
        box.element.style.display = shown ? "" : "none";
        box.element.setAttribute("x", around ? "0" : `${100 * (box.left - to.left) / to.width}%`);
        box.element.setAttribute("width", around ? "100%" : `${100 * box.width / to.width}%`);
      }
      focus(to);
    };
    const focus = (box) => {
      for (const other of boxes) other.element.setAttribute("tabindex", other === box ? "0" : "-1");
      box.element.focus();
    };
    const reset = () => {
      for (const box of boxes) {
        box.element.style.display = "";
        box.element.setAttribute("x", `${100 * box.left}%`);
        box.element.setAttribute("width", `${100 * box.width}%`);
      }
    };
    const shown = (box) => box.element.style.display !== "none";
    const next = (box, key) => {
      const seen = boxes.filter(shown);
      if (key === "ArrowUp") return seen.filter((one) => one.row === box.row - 1).find((one) => within(box, one));
      if (key === "ArrowDown") return seen.find((one) => one.row === box.row + 1 && within(one, box));
      const row = seen.filter((one) => one.row === box.row).sort((one, other) => one.left - other.left);
      return row[row.indexOf(box) + (key === "ArrowRight" ? 1 : -1)];
    };
    const search = () => {
      const words = field.value.trim().toLowerCase();
      const found = boxes.filter((box) => words && box.name.toLowerCase().includes(words));
      let share = 0;
      for (const box of boxes) {
        box.element.classList.toggle("found", found.includes(box));
        box.element.classList.toggle("unfound", Boolean(words) && !found.includes(box));
      }
      for (const box of found) {
        if (!found.some((other) => other.row < box.row && within(box, other))) share += box.width;
      }
      said.textContent = words ? `${found.length} found, ${(100 * share).toFixed(1)} % of the run` : "";
    };
    for (const box of boxes) {
      box.element.addEventListener("click", () => zoom(box));
      box.element.addEventListener("focus", () => {
        if (!field.value) said.textContent = box.element.getAttribute("aria-label");
      });
      box.element.addEventListener("keydown", (event) => {
        if (event.key === "Enter") zoom(box);
        else if (event.key === "Escape") { reset(); focus(box); }
        else if (event.key === "/") field.focus();
        else if (event.key.startsWith("Arrow")) { const to = next(box, event.key); if (to) focus(to); }
        else return;
        event.preventDefault();
      });
    }
    field.addEventListener("input", search);
    part.querySelector("button").addEventListener("click", reset);
  }
})();
"""
