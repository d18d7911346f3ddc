// Chooses light or dark before anything is drawn: the reader's own choice, else the system's.
"use strict";

{
  const system = matchMedia("(prefers-color-scheme: dark)");
  const modes = ["auto", "light", "dark"];

  /** The reader's choice; a browser that keeps nothing for the page has none. */
  const chosen = () => {
    try {
      const mode = localStorage.getItem("book-mode");
      return modes.includes(mode) ? mode : "auto";
    } catch {
      return "auto";
    }
  };

  const apply = (mode) => {
    const root = document.documentElement;
    root.dataset.mode = mode;
    root.dataset.theme = mode === "auto" ? (system.matches ? "dark" : "light") : mode;
  };

  apply(chosen());
  system.addEventListener("change", () => apply(document.documentElement.dataset.mode));

  document.addEventListener("DOMContentLoaded", () => {
    const button = document.querySelector("button.theme-switch");
    if (!button) return;
    const describe = () => {
      const mode = document.documentElement.dataset.mode;
      const words = mode === "auto" ? "as the system" : mode;
      button.setAttribute("aria-label", `Colours: ${words}`);
      button.title = `Colours: ${words}`;
    };
    button.addEventListener("click", () => {
      const next = modes[(modes.indexOf(document.documentElement.dataset.mode) + 1) % modes.length];
      apply(next);
      try {
        localStorage.setItem("book-mode", next);
      } catch {
        // Nothing is kept: the choice holds for this page.
      }
      describe();
    });
    describe();
    button.hidden = false;
  });
}
