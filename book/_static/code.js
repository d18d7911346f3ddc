// Lets code and the text of a report be copied with a button, and keeps the lines of a printed table whole.
"use strict";

{
  // Of an example with prompts, what a reader would type.
  const typed = (text) =>
    text.startsWith(">>> ")
      ? text.split("\n").filter((line) => /^(>>>|\.\.\.)/.test(line)).map((line) => line.slice(4)).join("\n")
      : text;

  const copy = async (block, button) => {
    try {
      await navigator.clipboard.writeText(typed(block.textContent.replace(/\n$/, "")));
      button.textContent = "Copied";
    } catch {
      // A page that was not loaded securely may not write there: the reader copies by hand.
      getSelection().selectAllChildren(block);
      button.textContent = "Selected";
    }
    setTimeout(() => (button.textContent = "Copy"), 2000);
  };

  document.addEventListener("DOMContentLoaded", () => {
    for (const block of document.querySelectorAll("div.highlight pre, details.page-mismatch pre")) {
      if (block.closest(".cell_output")) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "Copy";
      button.setAttribute("aria-live", "polite");
      button.addEventListener("click", () => copy(block, button));
      block.parentElement.append(button);
    }
    // A table that was printed has a rule below its head; its lines are not broken.
    for (const block of document.querySelectorAll("div.highlight pre")) block.classList.toggle("tabular", block.textContent.includes("──"));
  });
}
