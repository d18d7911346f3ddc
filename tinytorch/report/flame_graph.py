"""Flame graphs and timelines: boxes in rows under one another, as SVG that can be searched and walked by keys.

A flame graph has a box for each stack of frames, as wide as its share of the time; what runs in a frame stands below it
(B. Gregg, The Flame Graph, Communications of the ACM 59(6), 2016, upside down). The drawing can be seen without a
script. `SCRIPT` adds the zoom, the search, the keys and what a box says when it is pointed at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from html import escape

from tinytorch.perf.events.call_tree import Frame
from tinytorch.perf.events.stream import COLLECTOR, Profile
from tinytorch.report.numbers import format_number

#: Boxes below this share of the width are left out: on the widest screen they would be thinner than a pixel.
LEAST = 5e-4
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


def flame_boxes(
    root: Frame, look: Callable[[tuple[str, ...], Frame], tuple[str, str]] | None = None, least: float = LEAST
) -> list[Box]:
    """Return the boxes of a call tree, each before those below it, the widest first.

    ``look`` gives a frame, by the names on the way to it, its look and further words; by default its kind.
    """
    whole = max(root.total_ns, 1)
    boxes: list[Box] = []

    def visit(frame: Frame, names: tuple[str, ...], left: float, total: int) -> None:
        width = total / whole
        if width < least:
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


#: Start, end, rank of two alike, name and kind of what is drawn on a timeline.
Interval = tuple[int, int, int, str, str]


def timeline_boxes(profile: Profile) -> list[Box]:
    """Return the boxes of a run by time: regions, modules, ops and the collector as they ran, the longest of them."""
    whole = max(profile.end - profile.start, 1)
    return interval_boxes(_intervals(profile, whole), profile.start, profile.end)


def interval_boxes(intervals: Iterable[Interval], begin: int, end_of_all: int) -> list[Box]:
    """Return the boxes of intervals by time, between two moments; what is too short to be seen is left out."""
    whole = max(end_of_all - begin, 1)
    boxes: list[Box] = []
    running: list[int] = []
    found = _within(intervals, begin, end_of_all)
    for start, end, _, name, kind in sorted(found, key=lambda one: (one[0], -one[1], one[2])):
        while running and running[-1] <= start:
            running.pop()
        left = (start - begin) / whole
        words = f"{_seconds(end - start)} from {_seconds(start - begin)} on"
        boxes.append(Box(name, words, left, (end - start) / whole, len(running), kind))
        running.append(end)
    return boxes


def _within(intervals: Iterable[Interval], begin: int, end_of_all: int) -> Iterator[Interval]:
    for start, end, rank, name, kind in intervals:
        first, last = max(start, begin), min(end, end_of_all)
        if last - first >= LEAST * max(end_of_all - begin, 1):
            yield first, last, rank, name, kind


def _intervals(profile: Profile, whole: int) -> Iterator[Interval]:
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
        f'<rect width="100%" height="100%" fill="{_FILLS.get(box.look, _OTHER)}"/>'
        f'<text x="4" y="14" font-size="12" fill="#111">{escape(box.name)}</text></svg>'
    )


#: Colours of boxes by their look; dark words can be read on each, on a light page and on a dark one.
_FILLS = {
    "run": "#d5d5cf", "region": "#b9a9dd", "module": "#8cc7d3", "op": "#f2b45c", "collector": "#e58f8f",
    "thread": "#d5d5cf", "own": "#f2b45c", "library": "#8cc7d3", "compiled": "#a8d08d",
    "faster": "#7fb3f5", "slower": "#f39a6b", "the same": "#dcdcd6", "open": "#eeeeea", "only one": "#d8b4d0",
}  # fmt: skip
_OTHER = "#c9d3d6"

#: How boxes look, in light and dark.
STYLE = """
.boxes-drawing { display: block; overflow: hidden; }
.boxes-drawing text { font-family: var(--book-font, system-ui, sans-serif); pointer-events: none; }
.boxes-bar { display: flex; gap: .5rem 1rem; align-items: center; flex-wrap: wrap; margin: .5rem 0; }
.boxes-bar input {
  width: 9rem; padding: 0.25rem 0.5rem; border: 1px solid; border-radius: 6px; background: none; color: inherit;
  font: inherit;
}
.boxes-bar button {
  padding: .2rem .6rem; border: 1px solid currentColor; border-radius: 4px; background: none; color: inherit;
  font: inherit; cursor: pointer;
}
.boxes-bar output { flex-basis: 100%; min-height: 1.6em; }
.box { cursor: pointer; }
.box rect { stroke: Canvas; }
.box.unfound rect { fill-opacity: .3; }
.box.unfound text { fill: CanvasText; }
.box.found rect { stroke: #c2007a; stroke-width: 4; }
.box:focus-visible { outline: 3px solid CanvasText; outline-offset: -3px; }
.box:focus-visible rect { stroke: CanvasText; stroke-width: 4; }
"""

#: Zoom by a click or Enter, Escape for the whole, arrows to walk, / to search: as a classic script.
SCRIPT = """
(() => {
  for (const part of document.querySelectorAll(".boxes")) {
    const boxes = Array.from(part.querySelectorAll(".box"), (element) => ({
      element, left: Number(element.dataset.left), width: Number(element.dataset.width),
      row: Number(element.dataset.row), text: element.querySelector("text"),
      name: element.querySelector("text").textContent,
    }));
    const field = part.querySelector("input"), said = part.querySelector("output");
    const right = (box) => box.left + box.width, close = 1e-6;
    const within = (box, outer) => box.left >= outer.left - close && right(box) <= right(outer) + close;
    const drawing = part.querySelector("svg");
    const fit = () => {
      const width = drawing.getBoundingClientRect().width;
      for (const box of boxes) {
        const room = width * parseFloat(box.element.getAttribute("width")) / 100 - 8;
        box.text.textContent = room > 12 ? box.name : "";
        const taken = room > 12 ? box.text.getComputedTextLength() : 0;
        if (taken <= room) continue;
        const kept = Math.floor(box.name.length * room / taken) - 1;
        box.text.textContent = kept > 1 ? `${box.name.slice(0, kept)}…` : "";
      }
    };
    const zoom = (to) => {
      for (const box of boxes) {
        const around = box.row <= to.row && within(to, box), inside = box.row > to.row && within(box, to);
        const shown = around || inside;
        box.element.style.display = shown ? "" : "none";
        box.element.setAttribute("x", around ? "0" : `${100 * (box.left - to.left) / to.width}%`);
        box.element.setAttribute("width", around ? "100%" : `${100 * box.width / to.width}%`);
      }
      fit();
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
      fit();
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
    const tell = (box) => { if (!field.value) said.textContent = box.element.getAttribute("aria-label"); };
    for (const box of boxes) {
      box.element.addEventListener("click", () => zoom(box));
      box.element.addEventListener("focus", () => tell(box));
      box.element.addEventListener("pointerenter", () => tell(box));
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
    addEventListener("resize", fit);
    fit();
  }
})();
"""
