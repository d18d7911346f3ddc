// Saves a figure as a file of its own.
"use strict";

{
  /** Gives the parts of a drawing's copy the look that the page's style sheet gives to the parts of the drawing. */
  const withClassesAsAttributes = (shown, drawing) => {
    const [parts, copies] = [shown, drawing].map((root) => [root, ...root.querySelectorAll("*")]);
    parts.forEach((part, place) => {
      const seen = getComputedStyle(part);
      for (const what of ["fill", "fill-opacity", "stroke", "stroke-width", "font-size", "text-anchor"])
        copies[place].setAttribute(what, seen.getPropertyValue(what));
    });
  };

  /** Saves the drawing that is seen, of two layouts, in the colours in which it is. */
  const saveFigure = (figure) => {
    const shown = [...figure.querySelectorAll("svg")].find((drawing) => drawing.checkVisibility());
    const drawing = shown.cloneNode(true);
    const seen = getComputedStyle(shown);
    drawing.setAttribute("color", seen.color);
    const [parts, copies] = [shown, drawing].map((root) => [...root.querySelectorAll("[fill^='#'], [stroke^='#']")]);
    if (shown.matches(".drawing")) withClassesAsAttributes(shown, drawing);
    parts.forEach((part, place) => {
      for (const what of ["fill", "stroke"])
        if (part.getAttribute(what)?.startsWith("#")) copies[place].setAttribute(what, getComputedStyle(part)[what]);
    });
    drawing.setAttribute("font-family", "sans-serif");
    const text = new XMLSerializer().serializeToString(drawing);
    const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
    const link = document.createElement("a");
    link.href = address;
    link.download = `${figure.id}.svg`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  };

  document.addEventListener("DOMContentLoaded", () => {
    for (const figure of document.querySelectorAll("figure.measured-figure[id]")) {
      if (!figure.querySelector("svg") || !figure.querySelector("figcaption")) continue;
      const button = document.createElement("button");
      button.type = "button";
      button.className = "save";
      button.textContent = "Save as SVG";
      button.addEventListener("click", () => saveFigure(figure));
      figure.querySelector("figcaption").append(" ", button);
    }
  });
}
