"""Gate: no table is cut, and the words of figures can be read and lie inside of them, at the width of the open page."""

from __future__ import annotations

from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as TookTooLong

#: The least size of a figure's words in CSS pixels, on a phone and elsewhere.
LEAST_TEXT = {"phone": 11.0, "screen": 12.0}
PHONE_UP_TO = 640

# A table of machines is as wide as there are facts of a machine: it scrolls, and casts a shadow where it goes on.
CUT_TABLES = """() => [...document.querySelectorAll('.measured-table, .scrolled-table')]
  .filter(box => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1 && !box.matches('.machines'))
  .map(box => `table ${box.id || box.textContent.trim().slice(0, 40)} is cut: `
    + `${box.clientWidth} of ${box.scrollWidth} px are seen`)"""

FIGURE_TEXT = """least => {
  const problems = [];
  for (const drawing of document.querySelectorAll('figure.measured-figure svg')) {
    if (!drawing.checkVisibility()) continue;
    const name = drawing.closest('figure').id || 'a figure';
    const edge = drawing.getBoundingClientRect(), scale = drawing.getScreenCTM().a;
    for (const text of drawing.querySelectorAll('text')) {
      if (!text.textContent.trim()) continue;
      const size = parseFloat(getComputedStyle(text).fontSize) * scale;
      const box = text.getBoundingClientRect();
      if (size < least - 0.05)
        problems.push(`${name} has words of ${size.toFixed(1)} px, ${least} are right: ${text.textContent}`);
      const across = box.left < edge.left - 2 || box.right > edge.right + 2;
      if (across || box.top < edge.top - 2 || box.bottom > edge.bottom + 2)
        problems.push(`${name} is left by its words: ${text.textContent}`);
    }
  }
  return problems;
}"""

# The first that is on the page of each kind of thing that has something behind it.
KINDS = ("button.term", "button.measured[popovertarget]", "button.cell-number")
#: Ends a wait for what does not open, in milliseconds.
PATIENCE = 5000


def check(page: Page) -> list[str]:
    """Return which tables of an open page are cut, and which words of its figures are too small or leave them."""
    width = page.viewport_size["width"] if page.viewport_size else PHONE_UP_TO
    least = LEAST_TEXT["phone" if width <= PHONE_UP_TO else "screen"]
    return [*page.evaluate(CUT_TABLES), *page.evaluate(FIGURE_TEXT, least)]


def hover(page: Page) -> list[str]:
    """Return what shows nothing while the pointer rests on it: the first number, word and cell of an open page."""
    problems = []
    for kind in KINDS:
        found = page.locator(f"article {kind}:visible")
        if not found.count():
            continue
        first = found.first
        first.scroll_into_view_if_needed()
        first.hover()
        try:
            page.wait_for_selector(".measured-detail:popover-open", timeout=PATIENCE)
        except TookTooLong:
            problems.append(f"{kind} {first.inner_text()[:40]!r} shows nothing while the pointer rests on it")
        page.mouse.move(0, 0)
        page.keyboard.press("Escape")
    return problems
