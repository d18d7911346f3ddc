// Filters the ledger of claims by verdict and by the chapter that discusses a claim, as the page's address says, and makes
// the squares of the wall one stop of the keyboard.
"use strict";

{
  const ANY = "any";

  /** The name of the chapter that discusses a claim, as the address has it, and what the page calls the chapter. */
  const chapterOf = (row) => {
    const link = row.querySelector("td:last-child a");
    return { chapter: link?.pathname.split("/").pop().replace(/\.html$/, ""), title: link?.textContent.trim() };
  };

  /** Where a chapter stands in the book, as the list at the side has it. */
  const placeOf = ({ chapter }) =>
    [...document.querySelectorAll(".bd-sidebar-primary li a")].findIndex((link) => link.pathname.endsWith(`/${chapter}.html`));

  /** Keeps what is chosen in the address, so that a filtered ledger can be sent; from a folder a browser may refuse. */
  const keep = (chosen) => {
    const query = new URLSearchParams(Object.entries(chosen).filter(([, value]) => value !== ANY)).toString();
    try {
      history.replaceState(null, "", `${location.pathname}${query && `?${query}`}${location.hash}`);
    } catch {
      // The address stays as it is.
    }
  };

  const filterLedger = (rows, tables) => {
    const asked = new URLSearchParams(location.search);
    const shown = document.createElement("span");
    shown.setAttribute("role", "status");
    const selects = {};
    const filter = () => {
      const chosen = Object.fromEntries(Object.entries(selects).map(([name, select]) => [name, select.value]));
      let count = 0;
      for (const one of rows) {
        one.row.hidden = Object.entries(chosen).some(([name, value]) => value !== ANY && value !== one[name]);
        count += !one.row.hidden;
      }
      // A source whose claims are all left out says nothing.
      for (const source of document.querySelectorAll(".ledger .ledger-source"))
        source.hidden = [...source.parentElement.rows].every((row) => row === source || row.hidden);
      for (const table of document.querySelectorAll(".ledger table")) table.dispatchEvent(new Event("filtered"));
      shown.textContent = count === rows.length ? "" : `${count} of ${rows.length} claims`;
      return chosen;
    };
    const bar = document.createElement("p");
    bar.className = "ledger-filter";
    /** A choice among what rows have, in the order in which they have it: pairs of value and text. */
    const choice = (label, name, options) => {
      const select = (selects[name] = document.createElement("select"));
      for (const [value, text] of new Map([[ANY, ANY], ...options])) select.append(new Option(text, value));
      if ([...select.options].some(({ value }) => value === asked.get(name))) select.value = asked.get(name);
      select.addEventListener("change", () => keep(filter()));
      const said = document.createElement("label");
      said.append(`${label} `, select);
      bar.append(said, " ");
    };
    choice("Verdict", "verdict", rows.map(({ verdict }) => [verdict, verdict]));
    choice("Chapter", "chapter", rows.toSorted((a, b) => placeOf(a) - placeOf(b)).map(({ chapter, title }) => [chapter, title]));
    bar.append(shown);
    (document.querySelector(".ledger-counts") ?? tables[0]).before(bar);
    filter();
    // What the address leads to has moved.
    if (location.search) document.getElementById(location.hash.slice(1))?.scrollIntoView();
  };

  /** Lets Tab come to one square, from which arrows lead to the others. */
  const makeOneStop = (wall) => {
    const squares = [...wall.querySelectorAll(".wall a")];
    const choose = (one) => {
      for (const other of squares) other.tabIndex = other === one ? 0 : -1;
    };
    choose(squares[0]);
    wall.addEventListener("focusin", ({ target }) => squares.includes(target) && choose(target));
    wall.addEventListener("keydown", (event) => {
      const here = squares.indexOf(event.target);
      const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      const way = { ArrowUp: -1, ArrowDown: 1 }[event.key];
      if (here < 0 || !(step || way)) return;
      event.preventDefault();
      const { left, top } = event.target.getBoundingClientRect();
      const distance = (one) => {
        const there = one.getBoundingClientRect();
        return way * (there.top - top) > 1 ? Math.abs(there.top - top) * squares.length + Math.abs(there.left - left) : Infinity;
      };
      const next = step ? squares[here + step] : squares.reduce((best, one) => (distance(one) < distance(best) ? one : best));
      if (step || distance(next) < Infinity) next?.focus();
    });
  };

  document.addEventListener("DOMContentLoaded", () => {
    const tables = [...document.querySelectorAll(".measured-table.ledger")];
    const rows = tables
      .flatMap((table) => [...table.querySelectorAll("tbody tr")])
      .map((row) => ({ row, verdict: row.querySelector(".claim-verdict")?.lastChild.textContent.trim(), ...chapterOf(row) }))
      .filter(({ verdict }) => verdict);
    if (rows.length > 1) filterLedger(rows, tables);
    document.querySelectorAll(".claim-wall").forEach(makeOneStop);
  });
}
