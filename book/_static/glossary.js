// Shows a word's meaning while the pointer rests on it or the keyboard's focus is there. A press shows it without this.
"use strict";

const WAIT_TO_SHOW = 250; // ms: a pointer on its way elsewhere opens nothing
const WAIT_TO_HIDE = 300; // ms: time to move from the word into its meaning

/** Opens the meaning that stands behind `word`, beside it where the browser can. */
function show(word, meaning) {
  if (meaning.matches(":popover-open")) return;
  try {
    meaning.showPopover({ source: word });
  } catch {
    // The page is being left, or the element is gone: there is nothing to show.
  }
}

function watch(word) {
  const meaning = document.getElementById(word.getAttribute("popovertarget"));
  let timer = 0;
  const later = (wait, action) => {
    clearTimeout(timer);
    timer = setTimeout(action, wait);
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
  for (const part of [word, meaning]) {
    part.addEventListener("pointerenter", (event) => {
      if (event.pointerType === "mouse") later(part === word ? WAIT_TO_SHOW : 0, () => show(word, meaning));
    });
    part.addEventListener("pointerleave", (event) => {
      if (event.pointerType === "mouse") later(WAIT_TO_HIDE, hide);
    });
  }
  word.addEventListener("focus", () => {
    if (word.matches(":focus-visible")) show(word, meaning);
  });
  word.addEventListener("blur", left);
  meaning.addEventListener("focusout", left);
  word.addEventListener("click", () => clearTimeout(timer));
}

for (const word of document.querySelectorAll("button.term")) watch(word);
