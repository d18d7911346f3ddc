// Filters the ledger of claims by verdict and by the chapter that discusses a claim.
"use strict";

{
  const ANY = "any";

  /** Where a chapter stands in the book, as the list at the side has it. */
  const placeOf = (row) => {
    const address = row.querySelector("td:last-child a")?.pathname;
    return [...document.querySelectorAll(".bd-sidebar-primary li a")].findIndex((link) => link.pathname === address);
  };

  /** A choice among what rows have, in the order in which they have it. */
  const choice = (label, values, changed) => {
    const select = document.createElement("select");
    for (const value of [ANY, ...new Set(values)]) select.append(new Option(value, value));
    select.addEventListener("change", changed);
    const said = document.createElement("label");
    said.append(`${label} `, select);
    return { said, value: () => select.value };
  };

  document.addEventListener("DOMContentLoaded", () => {
    const tables = [...document.querySelectorAll(".measured-table.ledger")];
    const rows = tables
      .flatMap((table) => [...table.querySelectorAll("tbody tr")])
      .map((row) => ({
        row,
        verdict: row.querySelector(".claim-verdict")?.lastChild.textContent.trim(),
        chapter: row.querySelector("td:last-child")?.textContent.trim(),
        place: placeOf(row),
      }))
      .filter(({ verdict }) => verdict);
    if (rows.length < 2) return;
    const shown = document.createElement("span");
    shown.setAttribute("role", "status");
    const filter = () => {
      let count = 0;
      for (const { row, ...of } of rows) {
        row.hidden = ![["verdict", verdict], ["chapter", chapter]].every(([name, { value }]) => [ANY, of[name]].includes(value()));
        count += !row.hidden;
      }
      // A source whose claims are all left out says nothing.
      for (const source of document.querySelectorAll(".ledger .ledger-source"))
        source.hidden = [...source.parentElement.rows].every((row) => row === source || row.hidden);
      for (const table of document.querySelectorAll(".ledger table")) table.dispatchEvent(new Event("filtered"));
      shown.textContent = count === rows.length ? "" : `${count} of ${rows.length} claims`;
    };
    const verdict = choice("Verdict", rows.map((one) => one.verdict), filter);
    const chapter = choice("Chapter", rows.toSorted((a, b) => a.place - b.place).map((one) => one.chapter), filter);
    const bar = document.createElement("p");
    bar.className = "ledger-filter";
    bar.append(verdict.said, " ", chapter.said, " ", shown);
    (document.querySelector(".ledger-counts") ?? tables[0]).before(bar);
  });
}
