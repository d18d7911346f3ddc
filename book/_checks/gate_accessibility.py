"""Gate: axe-core finds nothing against WCAG 2.2 level AA.

Rules look at what can be seen, which differs between a phone and a screen: none is left out at either width.
"""

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


#: What depends on the colour scheme.
COLORS = ["color-contrast", "link-in-text-block"]


#: Runs axe behind two frames: until the first is drawn no script knows which boxes are wider than their place.
_SETTLED = """async ([context, options]) => {
  await new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)));
  return context?.length === 0 ? { violations: [] } : axe.run(context ?? document, options);
}"""

# Contrast takes most of axe's time, and is alike wherever text, the boxes around it and their states have the same
# style. So of each style the elements with the longest texts stand for all: axe tells nothing of single letters. What
# is positioned may lie above anything: all of it is looked at.
_ALIKE = """most => {
  const kinds = new Map(), around = new Map();
  const boxes = element => {
    if (!element) return '';
    if (!around.has(element)) {
      const style = getComputedStyle(element), positioned = !['static', 'relative'].includes(style.position);
      const own = [style.backgroundColor, style.backgroundImage, style.opacity, style.filter, style.mixBlendMode];
      const state = element.matches(':disabled, [aria-disabled=true], [aria-hidden=true], [inert]');
      around.set(element, `${boxes(element.parentElement)}/${own.join()},${state},${positioned ? around.size : ''}`);
    }
    return around.get(element);
  };
  for (const element of document.body.querySelectorAll('*')) {
    const text = [...element.childNodes].filter(node => node.nodeType === Node.TEXT_NODE)
      .map(node => node.data.trim()).join('');
    const length = (text || element.value || element.placeholder || '').length;
    if (!length || !element.checkVisibility()) continue;
    const style = getComputedStyle(element), near = getComputedStyle(element.parentElement);
    const own = [element.tagName, style.color, style.fill, style.fontSize, style.fontWeight, style.textShadow,
      style.textDecorationLine, style.position === 'static' ? near.color : element.outerHTML];
    const kind = `${own.join()}|${boxes(element)}`;
    kinds.set(kind, [...(kinds.get(kind) ?? []), [length, element]]);
  }
  return [...kinds.values()].flatMap(alike => alike.sort((a, b) => b[0] - a[0]).slice(0, most)).map(each => each[1]);
}"""
#: How many elements of one style stand for the others.
_EXAMPLES = 3


def check(page: Page, *, colors: bool | None = None) -> list[str]:
    """Return what axe-core finds against WCAG on an open page, a line for each element.

    Args:
        page: open.
        colors: True for what depends on colours alone, False for all else, None for both.

    Raises:
        FileNotFoundError: if axe-core is not installed.
    """
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text("utf-8"))
    rest = [] if colors is True else _violations(page, {"type": "tag", "values": WCAG_TAGS}, colors=False)
    return rest if colors is False else [*rest, *_violations(page, {"type": "rule", "values": COLORS}, colors=True)]


def _violations(page: Page, run_only: dict[str, Any], *, colors: bool) -> list[str]:
    options = {
        "runOnly": run_only,
        "rules": {name: {"enabled": colors} for name in COLORS},
        "resultTypes": ["violations"],
        # Else axe fetches the style sheets itself and looks for imported ones in the wrong folder.
        "preload": False,
    }
    context = page.evaluate_handle(_ALIKE, _EXAMPLES) if colors else None
    result = page.evaluate(_SETTLED, [context, options])
    return [line for violation in result["violations"] for line in describe_violation(violation)]
