"""Gate: axe-core finds nothing against WCAG 2.2 level AA.

Rules look at what can be seen, which differs between a phone and a screen: none is left out at either width.
"""

from functools import cache
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

AXE = Path(__file__).resolve().parents[2] / ".node" / "node_modules" / "axe-core" / "axe.min.js"

WCAG_TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]


def describe_violation(violation: dict[str, Any]) -> list[str]:
    """Return one line for each element that breaks an axe rule: rule, element, reason, where to read more."""
    lines = []
    for node in violation["nodes"]:
        checks = [*node["any"], *node["all"], *node["none"]]
        reason = checks[0]["message"] if checks else violation["help"]
        target = " ".join(str(part) for part in node["target"])
        lines.append(f"axe {violation['id']}: {target}: {reason} ({violation['helpUrl'].split('?')[0]})")
    return lines


@cache
def _script() -> str:
    return AXE.read_text("utf-8")


#: What depends on the colour scheme.
COLORS = ["color-contrast", "link-in-text-block"]


#: Runs axe behind two frames: until the first is drawn no script knows which boxes are wider than their place.
_SETTLED = """async (options) => {
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  return axe.run(document, options);
}"""


def check(page: Page, *, colors: bool | None = None) -> list[str]:
    """Return what axe-core finds against WCAG on an open page, a line for each element.

    Args:
        page: open.
        colors: True for what depends on colours alone, False for all else, None for both.

    Raises:
        FileNotFoundError: if axe-core is not installed.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(_script())
    options = {
        "runOnly": {"type": "rule", "values": COLORS} if colors else {"type": "tag", "values": WCAG_TAGS},
        "rules": {name: {"enabled": colors is not False} for name in COLORS},
        "resultTypes": ["violations"],
        # Else axe fetches the style sheets itself and looks for imported ones in the wrong folder.
        "preload": False,
    }
    result = page.evaluate(_SETTLED, options)
    return [line for violation in result["violations"] for line in describe_violation(violation)]
