// Sorts tables by a click on a column's header, and saves figures. Every page works without it.
"use strict";

/** What a cell sorts by: its number if it has one, else its text; cells that hold neither come last. */
function sortKey(cell) {
  if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
  const text = cell.textContent.trim();
  return text === "–" ? null : text;
}

function compareKeys(a, b) {
  if (a === null || b === null) return (a === null) - (b === null);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

/** Sorts numbers from large to small first, since the largest is what one looks for, and text from A to Z. */
function sortBy(header, index) {
  const table = header.closest("table");
  const body = table.tBodies[0];
  const numeric = header.classList.contains("numeric");
  const before = header.getAttribute("aria-sort");
  const first = numeric ? "descending" : "ascending";
  const second = numeric ? "ascending" : "descending";
  const order = before === first ? second : first;
  const sign = order === "ascending" ? 1 : -1;
  const rows = [...body.rows].map((row) => [sortKey(row.cells[index]), row]);
  rows.sort(([a], [b]) => (a === null || b === null ? compareKeys(a, b) : sign * compareKeys(a, b)));
  for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
  header.setAttribute("aria-sort", order);
  body.append(...rows.map(([, row]) => row));
}

function makeSortable(table) {
  [...table.tHead.rows[0].cells].forEach((header, index) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "sort";
    button.append(...header.childNodes);
    header.append(button);
    button.addEventListener("click", () => sortBy(header, index));
  });
}

/** Saves the drawing as a file of its own, in the colours in which it is seen. */
function saveFigure(figure) {
  const drawing = figure.querySelector("svg").cloneNode(true);
  const seen = getComputedStyle(figure.querySelector("svg"));
  drawing.setAttribute("style", `${drawing.getAttribute("style")}; color: ${seen.color}; font-family: sans-serif`);
  const text = new XMLSerializer().serializeToString(drawing);
  const address = URL.createObjectURL(new Blob([text], { type: "image/svg+xml" }));
  const link = document.createElement("a");
  link.href = address;
  link.download = `${figure.id}.svg`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

function makeSaveable(figure) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "save";
  button.textContent = "Save as SVG";
  button.addEventListener("click", () => saveFigure(figure));
  figure.querySelector("figcaption").append(" ", button);
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("table.sortable").forEach(makeSortable);
  document.querySelectorAll("figure.measured-figure").forEach(makeSaveable);
  // Code that is wider than the page can be scrolled with the keyboard only when it can have the focus.
  for (const block of document.querySelectorAll("div.highlight pre")) block.tabIndex = 0;
});
