"""Gate: Tab leads through everything that can be used, in the order of the page, in few stops, the focus to be seen.

What a button shows opens with Enter and closes with Escape, and the focus is then back on the button.
"""

from pathlib import Path
from typing import Any

from playwright.sync_api import Page

_WALK = Path(__file__).with_name("keyboard.js").read_text("utf-8")
# What looked at the page before left it somewhere, and the contents show what is below the section there; and where a
# walk before this one ended is where Tab would go on.
_FROM_THE_TOP = """async () => {
  scrollTo(0, 0);
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  if (!window.keyboardWalk) return;
  document.body.tabIndex = -1;
  document.body.focus();
  document.body.blur();
  document.body.removeAttribute('tabindex');
}"""
#: What can have the focus with all folded parts open: links, numbers of the text, and one stop for each table.
MOST_STOPS = 375
#: Tab comes to more than can be counted before, such as what scrolls; more than this is a trap.
_SPARE = 50


def walk(page: Page, *, popovers: bool = True) -> list[str]:
    """Return what Tab does wrong on an open page, and with ``popovers`` what Enter and Escape do, a line for each.

    The page itself looks at each stop, and is asked only where it depends on what is there which key comes next.
    """
    page.evaluate(_FROM_THE_TOP)
    page.evaluate(_WALK)
    seen: dict[str, Any] = page.evaluate("trying => keyboardWalk.begin(trying)", popovers)
    count, most = seen["count"], seen["count"] + _SPARE
    many = [f"Tab stops {count} times, at most {MOST_STOPS} are right"] if count > MOST_STOPS else []
    while True:
        for _ in range(seen["ahead"]):
            page.keyboard.press("Tab")
        seen = page.evaluate("keyboardWalk.collect()")
        if seen["done"] or seen["looks"] >= most:
            return [*many, *page.evaluate("keyboardWalk.end()")]
        if seen["popover"]:
            if not seen["shown"]:
                page.keyboard.press("Enter")
            if seen["leads"]:
                page.keyboard.press("Tab")
            page.keyboard.press("Escape")
