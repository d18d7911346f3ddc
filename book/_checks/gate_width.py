"""Gate: nothing is wider than the page, and what pops up fits it, at every width from a phone's to a large screen's."""

from collections.abc import Iterable

from chromium import HEIGHT
from playwright.sync_api import Page

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


def check(page: Page, widths: Iterable[int]) -> dict[str, list[int]]:
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
