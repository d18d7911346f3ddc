// Chooses light or dark before anything is drawn: the reader's own choice, else the system's. Asks for the text's font.
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

  // Before the style that names it is there. From a folder browsers load no font ahead.
  if (location.protocol !== "file:") {
    const font = Object.assign(document.createElement("link"), { rel: "preload", as: "font", type: "font/woff2", crossOrigin: "" });
    font.href = new URL("text.woff2", document.currentScript.src);
    document.head.append(font);
  }

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
