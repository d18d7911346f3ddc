// Shows what stands behind a number, a word or a table's cell while the pointer rests on it or the keyboard's focus is
// there. A press shows it without this; of cells only this does.
"use strict";

{
  const WAIT_TO_SHOW = 250; // ms: a pointer on its way elsewhere opens nothing
  const WAIT_TO_HIDE = 300; // ms: time to move from the word into its meaning

  /** Opens what stands behind `word`, beside it where the browser can. */
  const show = (word, meaning) => {
    if (meaning.matches(":popover-open")) return;
    try {
      meaning.showPopover({ source: word });
    } catch {
      // The page is being left, or the element is gone: there is nothing to show.
    }
  };

  /** Lets a popover open while the pointer or the focus is on its button; `fill` puts into it what it shows. */
  const watch = (word, meaning, fill = () => {}) => {
    let timer = 0;
    const later = (wait, action) => {
      clearTimeout(timer);
      timer = setTimeout(action, wait);
    };
    const open = () => {
      fill();
      show(word, meaning);
    };
    const hide = () => {
      if (meaning.matches(":popover-open") && !meaning.contains(document.activeElement)) meaning.hidePopover();
    };
    // Where the focus goes on to something else, nothing may lie over that; a press in the meaning's text leads nowhere.
    const left = (event) => {
      const next = event.relatedTarget;
      if (!next) later(WAIT_TO_HIDE, hide);
      else if (next !== word && !meaning.contains(next) && meaning.matches(":popover-open")) meaning.hidePopover();
    };
    word.addEventListener("pointerenter", (event) => {
      if (event.pointerType === "mouse") later(WAIT_TO_SHOW, open);
    });
    word.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") later(WAIT_TO_HIDE, hide);
    });
    word.addEventListener("focus", () => {
      if (word.matches(":focus-visible")) open();
    });
    word.addEventListener("blur", left);
    word.addEventListener("click", () => clearTimeout(timer));
    return { stay: () => clearTimeout(timer), leave: () => later(WAIT_TO_HIDE, hide), left };
  };

  /** Draws the samples behind a number over its interval, when it is first opened. */
  const drawSamples = (meaning) => {
    const element = (name, attributes) => {
      const made = document.createElementNS("http://www.w3.org/2000/svg", name);
      for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
      return made;
    };
    meaning.addEventListener("beforetoggle", () => {
      const [low, value, high, ...samples] = meaning.dataset.samples.split(" ").map(Number);
      const drawing = element("svg", { class: "samples", viewBox: "-2 0 304 24", "aria-hidden": "true" });
      drawing.append(
        element("rect", { x: low, y: 4, width: Math.max(high - low, 1), height: 16 }),
        element("path", { d: samples.map((at) => `M${at} 7v10`).join("") }),
        element("path", { d: `M${value} 1v22`, class: "median" }),
      );
      meaning.querySelector(".line").after(drawing);
    }, { once: true });
  };

  /** Adds to what is behind a number of this page a link to it, when it is first opened. */
  const linkTo = (word, meaning) => {
    meaning.addEventListener("beforetoggle", () => {
      const line = document.createElement("span");
      const link = document.createElement("a");
      line.className = "line";
      link.href = `#${word.id}`;
      link.textContent = "Link to this";
      line.append(link);
      meaning.append(" ", line);
    }, { once: true });
  };

  const watchPopover = (word) => {
    const meaning = document.getElementById(word.getAttribute("popovertarget"));
    const { stay, leave, left } = watch(word, meaning);
    meaning.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && stay());
    meaning.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && leave());
    meaning.addEventListener("focusout", left);
    if (meaning.dataset.samples) drawSamples(meaning);
    if (word.id) linkTo(word, meaning);
    // What only the focus opened costs no further stop: Enter leads into it.
    const reach = (tabIndex) => {
      for (const link of meaning.querySelectorAll("a")) link.tabIndex = tabIndex;
    };
    word.addEventListener("focus", () => reach(-1));
    word.addEventListener("click", () => reach(0));
  };

  /** One popover serves all cells. */
  const watchCells = (cells) => {
    const shared = document.createElement("div");
    shared.popover = "auto";
    shared.className = "measured-detail";
    shared.id = "cell-detail";
    document.querySelector("main").append(shared);
    let current = null;
    shared.addEventListener("pointerenter", (event) => event.pointerType === "mouse" && current?.stay());
    shared.addEventListener("pointerleave", (event) => event.pointerType === "mouse" && current?.leave());
    for (const cell of cells) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "cell-number";
      // Not the interval, which may stand on a line of its own, nor the space before it.
      button.append(...[...cell.childNodes].filter((part) => !part.classList?.contains("spread") && part.textContent.trim()));
      cell.prepend(button);
      cell.removeAttribute("title");
      const fill = () => {
        if (current !== watched && shared.matches(":popover-open")) shared.hidePopover(); // it stands beside another
        current = watched;
        shared.replaceChildren(...cell.dataset.detail.split("\n").map((text) => {
          const line = document.createElement("span");
          line.className = "line";
          line.textContent = text;
          return line;
        }));
      };
      const watched = watch(button, shared, fill);
      button.popoverTargetElement = shared;
      button.popoverTargetAction = "show";
      button.addEventListener("click", fill);
    }
  };

  document.addEventListener("DOMContentLoaded", () => {
    for (const word of document.querySelectorAll("button:is(.term, .measured)[popovertarget]")) watchPopover(word);
    const cells = [...document.querySelectorAll("[data-detail]")];
    if (cells.length) watchCells(cells);
  });
}
