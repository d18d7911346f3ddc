// Lays a reader's measurements beside the book's: claims, numbers, verdicts and tables, page by page.
"use strict";

globalThis.machines ??= {};

{
  /** An element with attributes and children; strings become text, never markup. */
  machines.element = (name, attributes = {}, ...children) => {
    const made = document.createElement(name);
    for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
    made.append(...children.filter((child) => child !== null));
    return made;
  };
  const element = machines.element;
  /** Letters that are not seen and turn what follows them, here the rest of a sentence. */
  const TURNING = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;
  let tables = 0;

  /**
   * A table in a region that scrolls when too wide. Rows are lists of nodes or strings; the first cell is a header.
   * The other columns' heads and cells have the classes `headClass` and `cellClass`.
   */
  machines.table = (caption, heads, rows, headClass = "", cellClass = "") => {
    tables += 1;
    const id = `drawn-table-${tables}`;
    const classed = (name) => (name ? { class: name } : {});
    const head = element("tr", {}, ...heads.map((text, i) => element("th", { scope: "col", ...classed(i ? headClass : "") }, text)));
    const body = rows.map(([first, ...rest]) =>
      element("tr", {}, element("th", { scope: "row" }, first), ...rest.map((cell, i) => element("td", { ...classed(cellClass), "data-label": heads[i + 1] }, cell))),
    );
    const table = element("table", {}, element("caption", { id }, ...[caption].flat()), element("thead", {}, head), element("tbody", {}, ...body));
    return element("div", { class: "measured-table stack", role: "region", tabindex: "0", "aria-labelledby": id }, table);
  };

  const numberCell = (number) => {
    const { cell, beside } = machines.numberText(number);
    const model = number.kind === "modelled" ? element("span", { class: "kind-tag" }, "model") : null;
    const range = beside ? element("span", { class: "spread" }, beside) : null;
    return element("span", { class: "beside-number" }, cell, model, " ", range);
  };

  const ratioCell = (yours, book) => {
    if (yours.kind === "counted" && book.kind === "counted" && yours.value === book.value) return "the same";
    const made = machines.ratio(yours, book);
    if (made === null) return "–";
    const kind = yours.kind === "modelled" || book.kind === "modelled" ? "modelled" : "measured";
    if (made.low === null || made.low === made.high) return numberCell({ ...made, kind, unit: "", interval: null });
    const cell = numberCell({ value: made.value, kind, unit: "", interval: made });
    if (made.low <= 1 && made.high >= 1) cell.append(" ", element("span", { class: "beside-word" }, "cannot tell here"));
    return cell;
  };

  const isNumber = (record) => ["measured", "counted", "derived", "modelled"].includes(record.kind);
  const agreement = (yours, book) =>
    yours === book ? element("span", { class: "beside-agree" }, "agree") : element("strong", { class: "beside-differ" }, "differ");

  /** Records of both sides by key, in the book's order. */
  const pairs = (yours, book, kind) => {
    const others = new Map(yours.records.map((record) => [record.key, record]));
    return book.records
      .filter((record) => kind(record) && others.has(record.key) && kind(others.get(record.key)))
      .map((record) => [others.get(record.key), record]);
  };

  const claimRows = (yours, book) =>
    pairs(yours, book, (record) => record.kind === "claim").map(([mine, theirs]) => [
      theirs.statement,
      theirs.verdict,
      mine.verdict,
      agreement(mine.verdict, theirs.verdict),
    ]);

  const numberRows = (yours, book) =>
    pairs(yours, book, isNumber).map(([mine, theirs]) => [
      theirs.what,
      numberCell(theirs),
      numberCell(mine),
      ratioCell(mine, theirs),
    ]);

  const wordRows = (yours, book) =>
    pairs(yours, book, (record) => record.kind === "verdict").map(([mine, theirs]) => [
      theirs.key.replaceAll("-", " "),
      theirs.word,
      mine.word,
      agreement(mine.word, theirs.word),
    ]);

  /** The cells of two tables of one key that hold numbers in both, by the name of the row and of the column. */
  const cellRows = (mine, theirs) => {
    const rowsByName = new Map();
    for (const row of mine.rows) {
      const name = String(row[0]);
      rowsByName.set(name, rowsByName.has(name) ? null : row); // of two rows of one name neither is comparable
    }
    const columns = new Map(mine.columns.map((column, index) => [column.key, index]));
    return theirs.rows.flatMap((row) =>
      theirs.columns.slice(1).flatMap((column, index) => {
        const [theirCell, myRow] = [row[index + 1], rowsByName.get(String(row[0]))];
        const myCell = myRow?.[columns.get(column.key)];
        if (!theirCell?.kind || !myCell?.kind) return [];
        const name = `${typeof row[0] === "string" ? row[0] : theirs.columns[0].label}: ${column.label}`;
        return [[name, numberCell(theirCell), numberCell(myCell), ratioCell(myCell, theirCell)]];
      }),
    );
  };

  const HEADS = ["The book's machine", "Your machine"];

  const pageTables = (yours, book) => {
    const found = [];
    const add = (caption, first, last, rows) => {
      if (rows.length) found.push(machines.table(caption, [first, ...HEADS, last], rows));
    };
    add("Verdicts of claims", "Claim", "The two", claimRows(yours, book));
    add("Numbers", "What", "Yours over the book's", numberRows(yours, book));
    add("Words chosen from them", "Word", "The two", wordRows(yours, book));
    for (const [mine, theirs] of pairs(yours, book, (record) => record.kind === "table")) {
      add(`Table: ${theirs.caption}`, "Row and column", "Yours over the book's", cellRows(mine, theirs));
    }
    return found;
  };

  const card = (entry) => {
    const { machine, blas, python, numpy, when } = entry.provenance;
    const libraries = blas.map((one) => `${one.name} ${one.version ?? ""} (${one.core ?? "unknown"} kernels, ${one.threads ?? "unknown"})`);
    return [
      machine.cpu,
      machine.vectors ?? "unknown",
      `${machine.cores_usable} of ${machine.cores_logical}`,
      machines.formatNumber(machine.memory_bytes, "B", null, true).text,
      machine.system,
      libraries.join(", ") || "none",
      `Python ${python}, NumPy ${numpy}`,
      when,
    ];
  };

  const cardTable = (yours, book) => {
    const names = ["Processor", "Vectors", "Cores that may be used", "Memory", "System", "BLAS, with its threads", "Versions", "Measured"];
    const [mine, theirs] = [card(yours.pages[0]), card(book.pages[0])];
    return machines.table("The two machines", ["", ...HEADS], names.map((name, i) => [name, theirs[i], mine[i]]));
  };

  const RATES = ["FLOP/s", "OP/s", "B/s"];
  const MOST_BARS = 10;

  /** What both machines can do at most, by name: the ratios of rates in the tables that both have. */
  const rateRatios = (shared) => shared.flatMap(([mine, theirs]) =>
    pairs(mine, theirs, (record) => record.kind === "table").flatMap(([myTable, theirTable]) => {
      const rows = new Map(myTable.rows.map((row) => [String(row[0]), row]));
      return theirTable.rows.flatMap((row) => row.flatMap((cell, index) => {
        const other = rows.get(String(row[0]))?.[index];
        if (index === 0 || !RATES.includes(cell?.unit) || other?.unit !== cell.unit) return [];
        const ratio = machines.ratio(other, cell);
        return ratio === null ? [] : [{ name: `${row[0]}: ${theirTable.columns[index].label}`, ...ratio }];
      }));
    })).slice(0, MOST_BARS);

  const SVG = "http://www.w3.org/2000/svg";
  const drawn = (name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
    if (text) made.textContent = text;
    return made;
  };

  /** A bar for each ratio from 1 on a logarithmic line, to the right where the reader's machine is faster. */
  const ratioPicture = (ratios) => {
    const [width, lane, middle] = [480, 44, 240];
    const far = Math.max(2, ...ratios.map(({ value }) => Math.max(value, 1 / value)));
    const across = (value) => middle + (middle - 70) * Math.log(value) / Math.log(far);
    const svg = drawn("svg", { viewBox: `0 0 ${width} ${ratios.length * lane + 8}`, role: "img" });
    const said = ratios.map(({ name, value }) => `${name}: ${machines.formatNumber(value, "").text}`).join("; ");
    svg.setAttribute("aria-label", `Rates of your machine over the book's. ${said}`);
    ratios.forEach(({ name, value }, place) => {
      const top = place * lane;
      const [left, right] = [across(Math.min(value, 1)), across(Math.max(value, 1))];
      svg.append(
        drawn("line", { x1: middle, x2: middle, y1: top + 19, y2: top + 39, stroke: "currentColor", "stroke-width": 1 }),
        drawn("text", { x: 0, y: top + 15, "font-size": 15 }, name.length > 52 ? `${name.slice(0, 50)}…` : name),
        drawn("rect", { x: left, y: top + 21, width: Math.max(right - left, 1), height: 16, class: "ratio-bar" }),
        drawn("text", { x: value < 1 ? left - 6 : right + 6, y: top + 34, "font-size": 15, "text-anchor": value < 1 ? "end" : "start" },
          machines.formatNumber(value, "").text),
      );
    });
    const figure = element("figure", { class: "measured-figure beside-ratios" });
    figure.append(svg, element("figcaption", {}, "Your machine over the book's, to the right where it is faster."));
    return figure;
  };

  /** The first rate in a sentence. */
  const headline = ([first]) => {
    const said = machines.formatNumber(first.value, "").text.replace("×", " times");
    const same = first.low !== null && first.low <= 1 && first.high >= 1;
    return same ? `Your machine cannot be told from the book's in ${first.name}.` : `Your machine is ${said} as fast in ${first.name}.`;
  };

  const counted = (count, one, many) => `${count} ${count === 1 ? one : many}`;

  /** Two lists of pages that both sides have, in the book's order: [yours, the book's] for each. */
  const sharedPages = (yours, book) => {
    const mine = new Map(yours.pages.map((page) => [page.page, page]));
    return book.pages.filter((page) => mine.has(page.page)).map((page) => [mine.get(page.page), page]);
  };

  const sameCode = (shared) =>
    shared.every(([mine, theirs]) => mine.provenance.package.sha256 === theirs.provenance.package.sha256);

  /**
   * Returns {summary, nodes}: a sentence for the live region, and the tables.
   * @param yours a checked file of measurements.
   * @param book the book's own.
   * @param titles titles of the book's pages by name.
   */
  machines.beside = (yours, book, titles) => {
    const shared = sharedPages(yours, book);
    if (!shared.length) return { summary: "This file holds no page that this book has.", nodes: [] };
    const claims = shared.flatMap(([mine, theirs]) => pairs(mine, theirs, (record) => record.kind === "claim"));
    const differing = claims.filter(([mine, theirs]) => mine.verdict !== theirs.verdict);
    const numbers = shared.reduce((sum, [mine, theirs]) => sum + pairs(mine, theirs, isNumber).length, 0);
    const summary =
      `${yours.label.replace(TURNING, "")}: ${counted(shared.length, "page", "pages")} and ${counted(numbers, "number", "numbers")} beside the book's. ` +
      (claims.length
        ? `Of ${counted(claims.length, "claim", "claims")} both judge ${claims.length - differing.length} alike and ${differing.length} differently.`
        : "It judges no claim.");
    const notes = [yours.note, sameCode(shared) ? null : "It was measured with other code than the book: keys are the same, what ran may differ."];
    const ratios = rateRatios(shared);
    const rows = differing.map(([mine, theirs]) => [theirs.statement, theirs.verdict, mine.verdict]);
    return {
      summary,
      nodes: [
        ...(ratios.length ? [element("p", { class: "beside-headline" }, headline(ratios)), ratioPicture(ratios)] : []),
        ...notes.filter(Boolean).map((note) => element("p", { class: "beside-note" }, note)),
        cardTable(yours, book),
        rows.length ? machines.table("Claims on which the two machines differ", ["Claim", ...HEADS], rows) : null,
        ...shared.map(([mine, theirs]) => {
          const title = titles.find(([name]) => name === theirs.page)?.[1] ?? theirs.page;
          return element("details", { class: "beside-page" }, element("summary", {}, title), ...pageTables(mine, theirs));
        }),
      ].filter(Boolean),
    };
  };
}
