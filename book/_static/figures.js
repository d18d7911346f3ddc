// Saves a figure as a file of its own.
"use strict";

{
  /** Saves the drawing in the colours in which it is seen. */
  const saveFigure = (figure) => {
    const drawing = figure.querySelector("svg").cloneNode(true);
    const seen = getComputedStyle(figure.querySelector("svg"));
    drawing.setAttribute("color", seen.color);
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
    for (const figure of document.querySelectorAll("figure.measured-figure")) {
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
