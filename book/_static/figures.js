// Saves a figure as a file of its own, and copies a drawing as a picture.
"use strict";

{
  /** Gives the parts of a drawing's copy the look that the page's style sheet gives to the parts of the drawing. */
  const withClassesAsAttributes = (shown, drawing) => {
    const [parts, copies] = [shown, drawing].map((root) => [root, ...root.querySelectorAll("*")]);
    parts.forEach((part, place) => {
      const seen = getComputedStyle(part);
      for (const what of ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "font-size", "font-weight", "text-anchor"])
        copies[place].setAttribute(what, seen.getPropertyValue(what));
    });
  };

  /** The text of a file that shows a drawing of the page in the colours in which it is seen. */
  const fileOf = (shown) => {
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
    return new XMLSerializer().serializeToString(drawing);
  };

  const save = (blob, name) => {
    const address = URL.createObjectURL(blob);
    Object.assign(document.createElement("a"), { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  };

  /** Saves the drawing that is seen, of two layouts. */
  const saveFigure = (figure) => {
    const shown = [...figure.querySelectorAll("svg")].find((drawing) => drawing.checkVisibility());
    save(new Blob([fileOf(shown)], { type: "image/svg+xml" }), `${figure.id}.svg`);
  };

  /** A drawing as a PNG file, `scale` pixels for each of its units. */
  const pngOf = async (shown, scale) => {
    const image = new Image();
    image.src = `data:image/svg+xml,${encodeURIComponent(fileOf(shown))}`;
    await image.decode();
    const { width, height } = shown.viewBox.baseVal;
    const canvas = Object.assign(document.createElement("canvas"), { width: scale * width, height: scale * height });
    const paper = canvas.getContext("2d");
    paper.fillStyle = getComputedStyle(document.body).backgroundColor;
    paper.fillRect(0, 0, canvas.width, canvas.height);
    paper.drawImage(image, 0, 0, canvas.width, canvas.height);
    return new Promise((resolve) => canvas.toBlob(resolve, "image/png"));
  };

  /** Copies a drawing as a picture, or saves it where a browser copies none; returns which of both it did. */
  const copyPicture = async (shown, name) => {
    const png = pngOf(shown, 2.5);
    try {
      await navigator.clipboard.write([new ClipboardItem({ "image/png": png })]);
      return "copied";
    } catch {
      save(await png, `${name}.png`);
      return "saved";
    }
  };
  globalThis.figures = { copyPicture };

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
