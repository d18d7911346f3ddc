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
      element("tr", {}, element("th", { scope: "row" }, first), ...rest.map((cell) => element("td", classed(cellClass), cell))),
    );
    const table = element("table", {}, element("caption", { id }, ...[caption].flat()), element("thead", {}, head), element("tbody", {}, ...body));
    return element("div", { class: "measured-table", role: "region", tabindex: "0", "aria-labelledby": id }, table);
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
    const words = machines.reach(made, yours.unit);
    const speed = words ? null : machines.speed(made, yours.unit);
    if (speed) return element("span", { class: "beside-number" }, speed.said, " ", element("span", { class: "spread" }, speed.beside));
    const cell = numberCell({ value: made.value, kind, unit: "", interval: made });
    if (words) cell.append(" ", element("span", { class: "beside-word" }, words));
    return cell;
  };

  const isNumber = (record) => record.kind !== "table" && machines.numbersOf(record).length > 0;
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

  const same = (mine, theirs) => (mine?.kind ? mine.kind === theirs?.kind && mine.value === theirs.value : mine === theirs);

  /**
   * The columns that name the rows of two tables: those with words and counts before the first with measurements.
   * Parameters that were computed, such as a share, name a row where others do not, and the first column always does.
   */
  const namingColumns = (sides) => {
    const columns = [...sides[0][0].keys()];
    const some = (column, kinds) => sides.flat().some((row) => kinds.includes(row.get(column)?.kind));
    const end = columns.findIndex((column) => some(column, ["measured", "modelled"]));
    const before = end < 0 ? columns.filter((column) => !some(column, ["counted"])) : columns.slice(0, Math.max(end, 1));
    const stated = [columns[0], ...before.filter((column) => column !== columns[0] && !some(column, ["derived"]))];
    const isAlike = (row, other) => row !== other && stated.every((column) => same(row.get(column), other.get(column)));
    return sides.some((rows) => rows.some((row) => rows.some((other) => isAlike(row, other)))) ? [...new Set([columns[0], ...before])] : stated;
  };

  /** Each row of the book's table with its name, and yours with all that names it; a problem where yours is not one row. */
  const rowPairs = (mine, theirs) => {
    const [myRows, theirRows] = [mine, theirs].map(machines.rowsOf);
    const labels = new Map(theirs.columns.map(({ key, label }) => [key, label]));
    const naming = namingColumns([theirRows, myRows]);
    const alike = (rows, row) => rows.filter((other) => naming.every((column) => same(other.get(column), row.get(column))));
    return theirRows.map((row) => {
      const said = naming.filter((column) => row.get(column)).map((column) => {
        const cell = row.get(column);
        return cell.kind ? `${labels.get(column)} ${machines.numberText(cell).text}` : cell;
      });
      const found = alike(myRows, row);
      const isOne = found.length === 1 && alike(theirRows, row).length === 1;
      const problem = isOne ? null : found.length ? "not compared: several rows have this name" : "not in your file";
      return { name: said.join(", "), theirs: row, mine: isOne ? found[0] : null, problem, naming, labels };
    });
  };

  /** The cells of two tables of one key that hold numbers in both, by the name of the row and of the column. */
  const cellRows = (mine, theirs) =>
    rowPairs(mine, theirs).flatMap((pair) => {
      const numbers = [...pair.labels.keys()].filter((column) => !pair.naming.includes(column) && pair.theirs.get(column)?.kind);
      if (pair.problem) return numbers.length ? [[pair.name, "–", "–", pair.problem]] : [];
      return numbers.filter((column) => pair.mine.get(column)?.kind).map((column) => {
        const [myCell, theirCell] = [pair.mine.get(column), pair.theirs.get(column)];
        return [`${pair.name}: ${pair.labels.get(column)}`, numberCell(theirCell), numberCell(myCell), ratioCell(myCell, theirCell)];
      });
    });

  const HEADS = ["The book's machine", "Your machine"];

  const pageTables = (yours, book) => {
    const found = [];
    const add = (caption, first, last, rows) => {
      if (rows.length) found.push(machines.table(caption, [first, ...HEADS, last], rows));
    };
    add("Verdicts of claims", "Claim", "The two", claimRows(yours, book));
    add("Numbers", "What", "Yours over the book's", numberRows(yours, book));
    add("Words that depend on them", "Word", "The two", wordRows(yours, book));
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
      new Date(when).toLocaleDateString("en-GB", { day: "numeric", month: "long", year: "numeric", timeZone: "UTC" }),
    ];
  };

  const cardTable = (yours, book) => {
    const names = ["Processor", "Vectors", "Usable cores", "Memory", "System", "BLAS and its threads", "Versions", "Measured"];
    const [mine, theirs] = [card(yours.pages[0]), card(book.pages[0])];
    return machines.table("The two machines", ["", ...HEADS], names.map((name, i) => [name, theirs[i], mine[i]]));
  };

  const MOST_BARS = 10;

  /** Each number in a cell of your tables that the book has, too, with the book's and the name of the cell. */
  const cellPairs = (shared) => shared.flatMap(([mine, theirs]) =>
    pairs(mine, theirs, (record) => record.kind === "table").flatMap((tables) =>
      rowPairs(...tables).filter(({ problem }) => problem === null).flatMap((pair) =>
        [...pair.theirs].map(([column, cell]) => ({ mine: pair.mine.get(column), theirs: cell, name: `${pair.name}: ${pair.labels.get(column)}` })),
      ))).filter((cell) => cell.mine?.kind && cell.theirs?.kind);

  /** How much faster each rate is that the tables of both hold with an interval, by name. */
  const rateRatios = (shared) => cellPairs(shared).flatMap(({ mine, theirs, name }) => {
    const ratio = machines.RATES.includes(theirs.unit) ? machines.ratio(mine, theirs) : null;
    return ratio === null ? [] : [{ name, ...ratio, ...machines.speed(ratio, theirs.unit) }];
  }).slice(0, MOST_BARS);

  /** A bar for each ratio from 1 on a logarithmic line, to the right where the reader's machine is faster. */
  const ratioPicture = (ratios) => {
    const [width, lane, middle] = [480, 44, 240];
    const far = Math.max(2, ...ratios.map(({ value }) => Math.max(value, 1 / value)));
    const across = (value) => middle + (middle - 165) * Math.log(value) / Math.log(far);
    const { svg: drawn } = explorers;
    const svg = drawn("svg", { viewBox: `0 0 ${width} ${ratios.length * lane + 8}`, role: "img" });
    const shown = ({ value }) => machines.formatNumber(value, "").text;
    const said = ratios.map((ratio) => `${ratio.name}: ${shown(ratio)}`).join("; ");
    svg.setAttribute("aria-label", `Rates of your machine over the book's. ${said}`);
    ratios.forEach((ratio, place) => {
      const { name, value } = ratio;
      const top = place * lane;
      const [left, right] = [across(Math.min(value, 1)), across(Math.max(value, 1))];
      svg.append(
        drawn("line", { x1: middle, x2: middle, y1: top + 19, y2: top + 39, stroke: "currentColor", "stroke-width": 1 }),
        drawn("text", { x: 0, y: top + 15, "font-size": 15 }, name.length > 52 ? `${name.slice(0, 50)}…` : name),
        drawn("rect", { x: left, y: top + 21, width: Math.max(right - left, 1), height: 16, class: "ratio-bar" }),
        drawn("text", { x: value < 1 ? left - 6 : right + 6, y: top + 34, "font-size": 15, "text-anchor": value < 1 ? "end" : "start" },
          shown(ratio)),
      );
    });
    const figure = element("figure", { class: "measured-figure beside-ratios" });
    figure.append(svg, element("figcaption", {}, "Speed of your machine divided by that of the book's machine. Points to the right of 1 mean that yours is faster."));
    return figure;
  };

  /** The rate in which the machines differ most, in a sentence. */
  const headline = (ratios) => {
    const far = ({ value }) => Math.abs(Math.log(value));
    const { name, ...most } = ratios.reduce((one, other) => (far(other) > far(one) ? other : one));
    const words = machines.reach(most, "B/s");
    if (words) return `${name}: your machine ${words.startsWith("no") ? "shows" : "is"} ${words}.`;
    return `${name}: your machine is ${most.said}.`;
  };

  const counted = (count, one, many) => `${count} ${count === 1 ? one : many}`;

  /** Two lists of pages that both sides have, in the book's order: [yours, the book's] for each. */
  const sharedPages = (yours, book) => {
    const mine = new Map(yours.pages.map((page) => [page.page, page]));
    return book.pages.filter((page) => mine.has(page.page)).map((page) => [mine.get(page.page), page]);
  };

  /** Each number of yours that the book has, too, with the book's: records and cells of tables. */
  const numberPairs = (shared) => [
    ...shared.flatMap(([mine, theirs]) => pairs(mine, theirs, isNumber)),
    ...cellPairs(shared).map(({ mine, theirs }) => [mine, theirs]),
  ];

  const BUSY = 1.5;
  const NOISY = 2;
  const middle = (values) => values.toSorted((a, b) => a - b)[Math.floor(values.length / 2)];
  const width = ({ value, interval }) => (interval.high - interval.low) / Math.abs(value);

  /** What makes the comparison doubtful, a sentence each: other programs, wide intervals, numbers without one. */
  const cautions = (shared) => {
    const loads = shared.map(([mine]) => mine.provenance.machine.load).filter((load) => load !== null);
    const load = Math.min(...loads);
    const measured = numberPairs(shared).filter((both) => both.every(({ kind, value }) => kind === "measured" && value !== 0));
    const known = measured.filter((both) => both.every(({ interval }) => interval && interval.high > interval.low));
    const wider = known.length ? middle(known.map(([mine, theirs]) => width(mine) / width(theirs))) : 1;
    const single = measured.filter((both) => both.some(({ interval }) => !interval)).length;
    const number = (value) => machines.formatNumber(value, "1").text;
    return [
      loads.length && load > BUSY ? `Your machine was busy: when the quietest of these pages began, the load average was already ${number(load)}. Close other programs and measure again.` : null,
      wider > NOISY ? `Your machine was noisy: half of its intervals are at least ${number(wider)} times as wide as the book's.` : null,
      single ? `${counted(single, "number has", "numbers have")} no interval on one of the two machines, so the page shows but does not compare ${single === 1 ? "it" : "them"}.` : null,
    ].filter(Boolean);
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
    if (!shared.length) return { summary: "This file and this book have no page in common.", nodes: [] };
    const claims = shared.flatMap(([mine, theirs]) => pairs(mine, theirs, (record) => record.kind === "claim"));
    const differing = claims.filter(([mine, theirs]) => mine.verdict !== theirs.verdict);
    const numbers = shared.reduce((sum, [mine, theirs]) => sum + pairs(mine, theirs, isNumber).length, 0);
    const summary =
      `${yours.label.replace(TURNING, "")}: ${counted(shared.length, "page", "pages")} and ${counted(numbers, "number", "numbers")} next to those of the book. ` +
      (claims.length
        ? `Of ${counted(claims.length, "claim", "claims")} the two machines agree on ${claims.length - differing.length} and differ on ${differing.length}.`
        : "It contains no claims.");
    const notes = [yours.note && `The file says: ${yours.note}.`, sameCode(shared) ? null : "It was measured with a different version of the code, so a number may come from a different program than the book's."];
    const ratios = rateRatios(shared);
    const rows = differing.map(([mine, theirs]) => [theirs.statement, theirs.verdict, mine.verdict]);
    return {
      summary,
      nodes: [
        ...(ratios.length ? [element("p", { class: "beside-headline" }, headline(ratios)), ratioPicture(ratios)] : []),
        ...cautions(shared).map((said) => element("p", { class: "card-caution" }, element("span", { class: "icon", "aria-hidden": "true" }, "!"), " ", said)),
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
