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
  const places = new Map(expected.map((element, place) => [element, place]));
  const before = new Map(expected.map((element) => [element, picture(element)]));
  const reached = new Set();
  const problems = [];
  const listening = new AbortController();
  let popoversToo = false; // whether popovers are tried
  let looks = 0, looksCollected = 0;
  let place = -1; // of the last stop in its order
  let done = false;

  // The popover that is tried: its button, how far that is, "found", "known" to who presses the keys or "closed" with
  // Escape, the states that it went through since, and whether the focus was not on the button when it was closed.
  let button = null, trial = null, states = [], lost = false;
  document.addEventListener("beforetoggle", (event) => {
    if (event.target === button?.popoverTargetElement) states.push(event.newState);
  }, { capture: true, signal: listening.signal });

  /** Ends the trial of the popover on whose button Enter and Escape were pressed, and says what was wrong with it. */
  function judgePopover() {
    if (!button) return;
    if (!states.includes("open")) problems.push(`${name(button)} does not open its popover with Enter`);
    else if (states.at(-1) !== "closed") problems.push(`${name(button)} does not close its popover with Escape`);
    else if (lost) problems.push(`${name(button)} loses the focus as its popover closes`);
    button = trial = null;
  }

  /** Looks at what has the focus now. */
  function look() {
    judgePopover();
    looks += 1;
    const element = document.activeElement;
    if (!element || element === document.body || reached.has(element)) {
      done = true;
      return;
    }
    reached.add(element);
    place = places.get(element) ?? place;
    if (before.has(element) && before.get(element) === picture(element))
      problems.push(`${name(element)} looks the same with the focus as without: give :focus-visible an outline`);
    if (!isUncovered(element))
      problems.push(`${name(element)} has the focus off the screen or below another element: it must be seen`);
    const popover = popoversToo ? element.popoverTargetElement : null;
    if (!popover) return;
    [button, trial, lost] = [element, "found", false];
    states = popover.matches(":popover-open") ? ["open"] : [];
  }

  // Tab waits where the key that comes next depends on what is there: so it can be pressed many times without asking.
  const isHeld = () => done || trial === "found";

  addEventListener("keydown", (event) => {
    if (event.key !== "Tab") return;
    if (isHeld()) {
      event.preventDefault();
      event.stopImmediatePropagation();
    } else if (trial === "closed") lost = document.activeElement !== button;
  }, { capture: true, signal: listening.signal });

  addEventListener("keyup", (event) => {
    if (event.key === "Escape" && trial === "known") trial = "closed";
    if (event.key !== "Tab" || isHeld()) return;
    if (trial !== "known") look();
    else if (!button.popoverTargetElement.contains(document.activeElement))
      problems.push(`Tab does not lead from ${name(button)} into the popover that it opened`);
  }, { capture: true, signal: listening.signal });

  /** How often Tab leads from here to a popover that is to be tried, or to the end, if all is in its order. */
  function ahead() {
    const rest = expected.slice(place + 1);
    const stop = popoversToo ? rest.findIndex((element) => element.popoverTargetElement) : -1;
    return (stop < 0 ? rest.length : stop) + 1;
  }

  window.keyboardWalk = {
    /** Begins, and tries popovers if `trying`; returns how much can have the focus, and how often to press Tab. */
    begin(trying) {
      popoversToo = trying;
      return { count: expected.length, ahead: ahead() };
    },

    /**
     * To be called after Tab was pressed as often as said. Returns whether all is seen, how many looks were taken, and
     * how often to press Tab; before that, for a `popover`, Enter unless it is `shown`, Tab if it `leads` somewhere, Escape.
     */
    collect() {
      if (looks === looksCollected) look(); // the page keeps keys to itself
      looksCollected = looks;
      if (trial) trial = "known";
      const popover = button?.popoverTargetElement;
      const shown = states.includes("open");
      const leads = !shown && Boolean(popover?.querySelector(CANDIDATES));
      return { done, looks, ahead: ahead(), popover: Boolean(popover), shown, leads };
    },

    /** Ends the walk; returns what was wrong, what Tab never came to, and what it came to after what stands below it. */
    end() {
      listening.abort();
      judgePopover();
      for (const element of expected)
        if (!reached.has(element)) problems.push(`${name(element)} is not reached with Tab`);
      const order = [...reached].filter((element) => before.has(element)).map((element) => places.get(element));
      const back = order.findIndex((place, index) => index > 0 && place < order[index - 1]);
      if (back > 0)
        problems.push(`${name(expected[order[back]])} is reached after ${name(expected[order[back - 1]])}, which stands below it`);
      return problems;
    },
  };
})();
