"""Gate: nothing is wider than the page at any width, nothing is cut that should be whole, or covered.

What pops up fits the page. Formulas are whole, and on a desk tables; Copy lies on no code; the words of figures are
large enough and lie inside of them; on a phone what can be pressed is high enough. What a number shows does not cover
it.
"""

from collections.abc import Iterable

from chromium import HEIGHT
from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as TookTooLong

#: The least size of a figure's words in CSS pixels, on a phone and elsewhere.
LEAST_TEXT = {"phone": 11.0, "screen": 12.0}
PHONE_UP_TO = 640

# Elements that stick out to the right, unless an ancestor scrolls or clips them; the outermost of each branch.
WIDER_THAN_PAGE = """() => {
  const root = document.documentElement, limit = root.clientWidth;
  if (root.scrollWidth <= limit) return [];
  const inside = element => {
    for (let above = element.parentElement; above && above !== document.body; above = above.parentElement)
      if (getComputedStyle(above).overflowX !== 'visible') return true;
    return false;
  };
  const out = [...document.body.querySelectorAll('*')].filter(
    element => element.getBoundingClientRect().right > limit + 1 && !inside(element));
  const outermost = out.filter(element => !out.includes(element.parentElement));
  const name = element => element.tagName.toLowerCase() + (element.id ? '#' + element.id : '')
    + [...element.classList].map(c => '.' + c).join('');
  return [`scrolls sideways by ${root.scrollWidth - limit} px: ` + outermost.slice(0, 3).map(name).join(', ')];
}"""

# What a popover shows is hidden until asked for: each is opened alone, as a reader opens it, since to open one lays out
# all that are open. One in a closed tab has no box: it is looked at when its tab is open.
POPOVERS_OUTSIDE = """() => [...document.querySelectorAll('[popover]')]
  .filter(popover => popover.parentElement.checkVisibility())
  .filter(popover => {
    popover.showPopover();
    const box = popover.getBoundingClientRect();
    popover.hidePopover();
    return box.left < -1 || box.right > innerWidth + 1 || box.width === 0;
  })
  .map(popover => `popover ${popover.id || popover.textContent.trim().slice(0, 40)} does not fit the page`)"""

# Opens the tab of this number in each set that has one; returns whether any has.
OPEN_TAB = """number => {
  let any = false;
  for (const tabs of document.querySelectorAll('.sd-tab-set')) {
    const tab = [...tabs.children].filter(child => child.matches('input[type=radio]'))[number];
    if (tab && !tab.checked) { tab.click(); any = true; }
  }
  return any;
}"""

# On a phone tables scroll; how wide the numbers of machines are that strangers sent in, nobody knows: those may always.
CUT_TABLES = """() => [...document.querySelectorAll('.measured-table, .scrolled-table')]
  .filter(box => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1)
  .filter(box => !box.matches('.machines') && innerWidth > 640)
  .map(box => `table ${box.id || box.textContent.trim().slice(0, 40)} is cut: `
    + `${box.clientWidth} of ${box.scrollWidth} px are seen`)"""

# A formula has lines enough for a phone; code scrolls.
CUT_LINES = """() => [...document.querySelectorAll('.math-block')]
  .filter(box => box.checkVisibility() && box.scrollWidth > box.clientWidth + 1)
  .map(box => `formula ${(box.id || box.textContent.trim()).slice(0, 40)} is cut: `
    + `${box.clientWidth} of ${box.scrollWidth} px are seen`)"""

COVERED_CODE = """() => [...document.querySelectorAll('div.highlight button.copy')].filter(copy => {
  if (!copy.checkVisibility()) return false;
  const lines = document.createRange(), box = copy.getBoundingClientRect();
  lines.selectNodeContents(copy.parentElement.querySelector('pre'));
  return [...lines.getClientRects()].some(line => line.width > 1 && line.right > box.left + 1
    && line.left < box.right - 1 && line.bottom > box.top + 1 && line.top < box.bottom - 1);
}).map(copy => `Copy covers code: ${copy.parentElement.textContent.trim().slice(0, 40)}`)"""

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

# WCAG 2.2, 2.5.8, which leaves out what stands in a sentence; axe-core measures the room around, which a finger cannot.
LOW_TARGETS = """() => [...document.querySelectorAll('a[href], button, summary, select')].filter(each => {
  if (!each.checkVisibility({ opacityProperty: true, visibilityProperty: true })) return false;
  const block = each.closest('td, th, caption, figcaption, p, li, dt, dd, h1, h2, h3, h4');
  const inSentence = block?.matches('p, li, dd') && block.textContent.trim() !== each.textContent.trim();
  return !inSentence && each.getClientRects()[0].height < 23.9;
}).map(each => `${each.tagName.toLowerCase()}.${each.className} "${each.textContent.trim().slice(0, 30)}" is `
  + `${each.getClientRects()[0].height.toFixed(1)} px high, 24 are right`)"""

COVERED_BY_ITS_MEANING = """button => {
  const own = button.getBoundingClientRect();
  const shown = document.querySelector('.measured-detail:popover-open').getBoundingClientRect();
  return shown.left < own.right - 1 && shown.right > own.left + 1
    && shown.top < own.bottom - 1 && shown.bottom > own.top + 1;
}"""

# The first that is on the page of each kind of thing that has something behind it.
KINDS = ("button.term", "button.measured[popovertarget]", "button.cell-number")
#: Ends a wait for what does not open, in milliseconds.
PATIENCE = 30_000


def check(page: Page) -> list[str]:
    """Return what of an open page is cut, covered or too low, and which words of figures are small or leave them."""
    width = page.viewport_size["width"] if page.viewport_size else PHONE_UP_TO
    least = LEAST_TEXT["phone" if width <= PHONE_UP_TO else "screen"]
    scripts = [CUT_TABLES, CUT_LINES, COVERED_CODE, *([LOW_TARGETS] if width <= PHONE_UP_TO else [])]
    found = [page.evaluate(script) for script in scripts]
    return [*(problem for problems in found for problem in problems), *page.evaluate(FIGURE_TEXT, least)]


def hover(page: Page) -> list[str]:
    """Return what shows nothing, or covers itself, while the pointer rests on it: the first number, word and cell."""
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
        else:
            if first.evaluate(COVERED_BY_ITS_MEANING):
                problems.append(f"{kind} {first.inner_text()[:40]!r} is covered by what it shows")
        page.mouse.move(0, 0)
        page.keyboard.press("Escape")
    return problems


def check_width(page: Page, widths: Iterable[int]) -> dict[str, list[int]]:
    """Return what does not fit an open page, each with the widths at which; the page is left as wide as it was.

    Every tab is opened once, and the first of each set last. Popovers are opened at the first width, the narrowest.
    """
    before = page.viewport_size
    found: dict[str, list[int]] = {}
    for place, width in enumerate(widths):
        page.set_viewport_size({"width": width, "height": HEIGHT})
        tab = 0
        while tab == 0 or page.evaluate(OPEN_TAB, tab):
            outside = page.evaluate(POPOVERS_OUTSIDE) if place == 0 else []
            for problem in (*page.evaluate(WIDER_THAN_PAGE), *outside):
                if width not in found.setdefault(problem, []):
                    found[problem].append(width)
            tab += 1
        page.evaluate(OPEN_TAB, 0)
    if before is not None:
        page.set_viewport_size(before)
    return found
