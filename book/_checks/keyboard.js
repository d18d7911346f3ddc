// Runs inside of a page that gate_keyboard.py walks through: what can have the focus, and what is seen when it has.
"use strict";

(() => {
  const CANDIDATES = "a[href], area[href], button, input, select, textarea, summary, iframe, audio[controls], "
    + "video[controls], [tabindex], [contenteditable]:not([contenteditable=false])";
  // What a focus indicator may be made of.
  const SEEN = ["outlineStyle", "outlineWidth", "outlineColor", "boxShadow", "backgroundColor", "backgroundImage",
    "borderTopWidth", "borderTopColor", "borderBottomWidth", "borderBottomColor", "borderLeftColor", "color",
    "textDecorationLine", "textDecorationColor", "textDecorationThickness", "opacity", "clipPath", "transform"];

  const isSeen = (element) => element.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: false })
    && element.getClientRects().length > 0;

  /** Of radio buttons with one name Tab reaches one: the chosen, else the first. */
  function standsForItsGroup(element) {
    if (element.type !== "radio" || !element.name) return true;
    const group = [...(element.form ?? document).querySelectorAll(`input[type=radio][name="${CSS.escape(element.name)}"]`)]
      .filter((radio) => radio.form === element.form && !radio.disabled && isSeen(radio));
    return (group.find((radio) => radio.checked) ?? group[0]) === element;
  }

  const isReached = (element) => !element.matches(":disabled") && element.tabIndex >= 0 && isSeen(element)
    && !element.closest("[inert]") && !(element.matches("summary") && element.parentElement?.tagName !== "DETAILS")
    && standsForItsGroup(element);

  /** The parts in which an element's focus may show: itself, what it draws before and after, its label, its frame. */
  function parts(element) {
    const around = [...(element.labels ?? []), element.nextElementSibling, element.parentElement]
      .filter((other) => other && other !== document.body);
    return [[element, null], [element, "::before"], [element, "::after"], ...around.map((other) => [other, null])];
  }

  const picture = (element) => parts(element).map(([part, pseudo]) => {
    const style = getComputedStyle(part, pseudo);
    const outlined = style.outlineStyle !== "none" && !/^rgba.*, 0\)$/.test(style.outlineColor);
    return SEEN.filter((name) => outlined || !name.startsWith("outline")).map((name) => style[name]).join("|");
  }).join("\n");

  function name(element) {
    const words = (element.getAttribute("aria-label") ?? element.textContent).trim().replace(/\s+/g, " ").slice(0, 40);
    const kind = element.tagName.toLowerCase() + (element.id ? `#${element.id}` : "") + [...element.classList].map((c) => `.${c}`).join("");
    return words ? `${kind} "${words}"` : kind;
  }

  // How much of an element that is larger than the screen must be on it, in CSS pixels: a target's least size.
  const ENOUGH = 24;

  /** The part of a box that is on the screen; null if that is less than half of it and less than enough. */
  function partOnScreen(box) {
    const left = Math.max(box.left, 0), right = Math.min(box.right, document.documentElement.clientWidth);
    const top = Math.max(box.top, 0), bottom = Math.min(box.bottom, document.documentElement.clientHeight);
    const seen = right - left >= Math.min(ENOUGH, box.width / 2) && bottom - top >= Math.min(ENOUGH, box.height / 2);
    return seen ? { left, top, width: right - left, height: bottom - top } : null;
  }

  /** Whether a point of what is on the screen of the element has nothing of another element over it. */
  function isUncovered(element) {
    const boxes = [element, ...(element.labels ?? [])].flatMap((part) => [...part.getClientRects()]);
    for (const box of boxes.map(partOnScreen).filter(Boolean))
      for (const [x, y] of [[0.5, 0.5], [0.1, 0.5], [0.9, 0.5], [0.5, 0.1], [0.5, 0.9]]) {
        const hit = document.elementFromPoint(box.left + x * box.width, box.top + y * box.height);
        if (hit && (element.contains(hit) || hit.contains(element) && hit !== document.body && hit !== document.documentElement
          || [...(element.labels ?? [])].some((label) => label.contains(hit)))) return true;
      }
    return false;
  }

  // Nothing is caught halfway; a constructed sheet is no inline style, which the page's policy would forbid.
  const still = new CSSStyleSheet();
  still.replaceSync("*, ::before, ::after { transition: none !important; animation: none !important }");
  document.adoptedStyleSheets = [...document.adoptedStyleSheets, still];

  const expected = [...document.querySelectorAll(CANDIDATES)].filter(isReached);
  const before = new Map(expected.map((element) => [element, picture(element)]));
  const reached = new Set();

  // Popovers, each with the states that it went through since its button was looked at.
  const toggled = new Map();
  document.addEventListener("beforetoggle", (event) => toggled.get(event.target)?.push(event.newState), true);
  let button = null;

  /** What was wrong with the popover of the button before this one, on which Enter and Escape were pressed since. */
  function popoverProblems() {
    const popover = button?.popoverTargetElement;
    const states = toggled.get(popover);
    toggled.clear();
    if (!states) return [];
    if (!states.includes("open")) return [`${name(button)} does not open its popover with Enter`];
    if (states.at(-1) !== "closed") return [`${name(button)} does not close its popover with Escape`];
    return lost ? [`${name(button)} loses the focus as its popover closes`] : [];
  }
  let lost = false;

  window.keyboardWalk = {
    count: expected.length,

    /**
     * Looks at what has the focus now; returns what is wrong, whether all is seen, whether it opens a popover that is
     * to be tried with `enter` and `settle`, if `trying`, whether the focus alone has shown it already, and whether there
     * is something to use in it.
     */
    look(trying) {
      const problems = popoverProblems();
      const element = document.activeElement;
      button = null;
      if (!element || element === document.body || reached.has(element)) return { done: true, problems };
      reached.add(element);
      if (before.has(element) && before.get(element) === picture(element))
        problems.push(`${name(element)} looks the same with the focus as without: give :focus-visible an outline`);
      if (!isUncovered(element))
        problems.push(`${name(element)} has the focus off the screen or below another element: it must be seen`);
      const popover = trying ? element.popoverTargetElement : null;
      const shown = Boolean(popover?.matches(":popover-open"));
      if (popover) {
        button = element;
        toggled.set(popover, shown ? ["open"] : []);
      }
      return { done: false, problems, popover: Boolean(popover), shown, leads: !shown && Boolean(popover?.querySelector(CANDIDATES)) };
    },

    /** To be called after Enter and Tab on the button of a popover with something to use in it. */
    enter() {
      const inside = button.popoverTargetElement.contains(document.activeElement);
      return inside ? [] : [`Tab does not lead from ${name(button)} into the popover that it opened`];
    },

    /** To be called after Enter and Escape on a button: they must leave the focus where it was. */
    settle() {
      lost = document.activeElement !== button;
    },

    /** What Tab never came to, and what it came to only after what stands below it. */
    missed() {
      const problems = expected.filter((element) => !reached.has(element))
        .map((element) => `${name(element)} is not reached with Tab`);
      const order = [...reached].filter((element) => before.has(element)).map((element) => expected.indexOf(element));
      const back = order.findIndex((place, index) => index > 0 && place < order[index - 1]);
      if (back > 0)
        problems.push(`${name(expected[order[back]])} is reached after ${name(expected[order[back - 1]])}, which stands below it`);
      return problems;
    },
  };
})();
