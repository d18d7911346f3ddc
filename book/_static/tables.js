// Sorts tables by a click on a column's header, makes the buttons and links of a table one stop of the keyboard, keeps
// what has the focus in a wide one on the screen, and hides the numbers of which the names of rows cover a part.
"use strict";

{
  /** What a cell sorts by: its number if it has one, else its text; cells that hold neither come last. */
  const sortKey = (cell) => {
    if (cell.dataset.value !== undefined) return Number(cell.dataset.value);
    const text = cell.textContent.trim();
    return text === "–" ? null : text;
  };

  const compareKeys = (a, b) => {
    if (a === null || b === null) return (a === null) - (b === null);
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), "en", { numeric: true });
  };

  /**
   * Sorts numbers from large to small first, since the largest is what one looks for, and text from A to Z; then the
   * other way round; then as it was.
   */
  const sortBy = (header, index, written) => {
    const table = header.closest("table");
    const body = table.tBodies[0];
    const numeric = header.classList.contains("numeric");
    const before = header.getAttribute("aria-sort");
    const first = numeric ? "descending" : "ascending";
    const second = numeric ? "ascending" : "descending";
    const order = before === first ? second : first;
    const sign = order === "ascending" ? 1 : -1;
    if (before === second) {
      header.removeAttribute("aria-sort");
      body.append(...written);
      return;
    }
    const rows = [...body.rows].map((row) => [sortKey(row.cells[index]), row]);
    rows.sort(([a], [b]) => (a === null || b === null ? compareKeys(a, b) : sign * compareKeys(a, b)));
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    header.setAttribute("aria-sort", order);
    body.append(...rows.map(([, row]) => row));
  };

  const makeSortable = (table) => {
    const written = [...table.tBodies[0].rows];
    [...table.tHead.rows[0].cells].forEach((header, index) => {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "sort";
      button.append(...header.childNodes);
      header.append(button);
      button.addEventListener("click", () => sortBy(header, index, written));
    });
  };

  const STOPS = ":is(button:is(.sort, .measured, .term, .cell-number), a[href]:not(.headerlink, .number)):not([popover] *)";
  const stopsOf = (part) => [...part.querySelectorAll(STOPS)].filter((one) => one.checkVisibility());

  /** Lets Tab come to one button or link of a table, from which arrows lead to the others. */
  const makeOneStop = (table) => {
    const choose = (one) => {
      for (const other of table.querySelectorAll(STOPS)) other.tabIndex = other === one ? 0 : -1;
    };
    const begin = () => choose([...table.querySelectorAll(STOPS)].find((one) => !one.closest("[hidden]")));
    begin();
    table.addEventListener("filtered", begin);
    table.addEventListener("focusin", ({ target }) => target.matches(STOPS) && choose(target));
    table.addEventListener("keydown", (event) => {
      const here = event.target.closest(STOPS);
      const [down, right] = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[event.key] ?? [];
      if (!here || down === undefined) return;
      event.preventDefault();
      const rows = [...table.rows].map(stopsOf).filter((one) => one.length);
      const row = rows.findIndex((one) => one.includes(here));
      const column = here.closest("td, th").cellIndex;
      const distance = (one) => Math.abs(one.closest("td, th").cellIndex - column);
      const next = right
        ? rows[row][rows[row].indexOf(here) + right]
        : rows[row + down]?.reduce((best, one) => (distance(one) < distance(best) ? one : best));
      next?.focus();
    });
  };

  /** Where the text of a cell begins on the screen. */
  const textStart = (cell) => {
    const range = new Range();
    range.selectNodeContents(cell);
    return range.getBoundingClientRect().left;
  };

  /** In a box that is scrolled, hides the columns of numbers that lie partly under the names of rows. */
  const hideCovered = (box) => {
    const rows = [...box.querySelectorAll("tr")];
    const names = rows.at(-1).cells[0];
    const edge = names.getBoundingClientRect().right;
    const scrolled = box.scrollLeft > 0 && getComputedStyle(names).position === "sticky";
    box.style.scrollPaddingLeft = scrolled ? `${names.offsetWidth}px` : "";
    box.classList.toggle("scrolled", scrolled);
    [...rows[0].cells].slice(1).forEach((header, before) => {
      const column = rows.map((row) => row.cells[before + 1]).filter(Boolean);
      const { left, right } = header.getBoundingClientRect();
      const cut = scrolled && left < edge && right > edge && column.at(-1).classList.contains("numeric")
        && column.some((cell) => cell.textContent && textStart(cell) < edge - 1);
      for (const cell of column) cell.classList.toggle("covered", cut);
    });
  };

  // A box that scrolls tells no other one; tables that a script makes later are watched, too.
  document.addEventListener("scroll", ({ target }) => {
    if (target.matches?.(".measured-table, .scrolled-table")) hideCovered(target);
  }, { capture: true, passive: true });

  document.addEventListener("DOMContentLoaded", () => {
    document.querySelectorAll("table.sortable").forEach(makeSortable);
    // A browser leaves the focus where a pixel of it shows at the edge of a box that scrolls; a press moves nothing.
    for (const box of document.querySelectorAll(".measured-table, .scrolled-table"))
      box.addEventListener("focusin", ({ target }) => {
        if (target !== box && target.matches(":focus-visible")) target.scrollIntoView({ block: "nearest", inline: "nearest" });
      });
  });

  // Behind the other scripts of this page, which make buttons too.
  addEventListener("load", () => document.querySelectorAll("article table").forEach(makeOneStop));
}
