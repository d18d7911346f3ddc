// Draws rooflines as SVG, as wide as their place, on logarithmic axes; every roof and point can have the focus.
"use strict";

globalThis.machines ??= {};

{
  const { svg, target } = globalThis.explorers;
  const MARGIN = { left: 64, right: 14, top: 14, bottom: 48 };
  const LINE = 14; // pixels between two names, so that both can be read
  const LETTER = 7.8; // pixels that a letter of a name takes
  const REACH = 24; // pixels of a target, as WCAG 2.2 asks (2.5.8)
  const BESIDE = 12; // pixels between the names and the first point
  const LEAST = 1e-300; // what the axes begin at, at least
  const LINE_REACH = 14; // of a roof: more would cover the next one, and the tables below say the same

  const isFinitePair = ([x, y]) => Number.isFinite(x) && Number.isFinite(y);
  const path = (points) => points.filter(isFinitePair).map(([x, y], i) => `${i ? "L" : "M"}${x.toFixed(1)},${y.toFixed(1)}`).join("");

  /** Where things lie on the paper. */
  class Paper {
    /** `names`: pixels at the left that the names of slopes take. */
    constructor(width, names, xs, ys) {
      this.width = width;
      this.height = Math.round(Math.min(Math.max(width * 0.62, 300), 460));
      this.names = names;
      [this.xs, this.ys] = [xs, ys].map(([low, high]) => [Math.log10(low), Math.log10(high)]);
    }
    x(value) {
      const [low, high] = this.xs;
      const inner = this.width - MARGIN.left - MARGIN.right;
      return MARGIN.left + (inner * (Math.log10(value) - low)) / (high - low);
    }
    y(value) {
      const [low, high] = this.ys;
      const inner = this.height - MARGIN.top - MARGIN.bottom;
      return this.height - MARGIN.bottom - (inner * (Math.log10(value) - low)) / (high - low);
    }
  }

  /** The intensity at which slopes begin: right of their names. */
  const slopesBegin = (paper) => {
    const [low, high] = paper.xs;
    return 10 ** (low + (high - low) * paper.names / (paper.width - MARGIN.left - MARGIN.right));
  };

  const tickText = (value) => {
    const prefix = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]].find(([factor]) => value >= factor);
    return prefix ? `${Math.round(value / prefix[0])} ${prefix[1]}` : String(Number(value.toPrecision(3)));
  };

  const powers = ([low, high], most) => {
    const all = [];
    for (let power = Math.ceil(low); power <= high; power += 1) all.push(power);
    const step = Math.max(Math.ceil(all.length / most), 1);
    return all.filter((_, index) => index % step === 0).map((power) => 10 ** power);
  };

  const axes = (paper) => {
    const frame = { width: paper.width, height: paper.height, margin: MARGIN };
    const group = explorers.axes(frame, "arithmetic intensity (FLOP/B)", "rate (GFLOP/s)");
    for (const value of powers(paper.xs, paper.width / 70)) group.append(...explorers.tick(frame, { x: paper.x(value) }, tickText(value)));
    for (const value of powers(paper.ys, 9)) group.append(...explorers.tick(frame, { y: paper.y(value) }, String(value / 1e9)));
    return group;
  };

  const rangeOf = (values) => [Math.min(...values), Math.max(...values)];

  /** The ranges of both axes: all points, all ridges, and room around them, at the left for the names of slopes. */
  const ranges = (shown, kernel, width, names) => {
    const ridges = shown.flatMap(({ peaks, levels }) => peaks.flatMap((peak) => levels.map((level) => peak.value / level.value)));
    const points = [...shown.flatMap((one) => one.points), ...(kernel ? [kernel] : [])];
    const [first, last] = rangeOf([...ridges, ...points.map((point) => point.intensity)]);
    const end = Math.log10(last * 4);
    const inner = width - MARGIN.left - MARGIN.right;
    const share = (names + BESIDE) / inner;
    const begin = (Math.log10(first) - share * end) / (1 - share);
    const xs = [Math.max(10 ** begin, LEAST), last * 4];
    const slopes = shown.flatMap(({ levels }) => levels.map((level) => level.value * 10 ** (begin + ((end - begin) * names) / inner)));
    const rates = points.flatMap((point) => [point.low, point.high]);
    const [low, high] = rangeOf([...slopes, ...rates, ...shown.flatMap(({ peaks }) => peaks.map((peak) => peak.high))]);
    return [xs, [low / 2, high * 2.2]];
  };

  const words = (roof, owner) => {
    const { cell, beside } = machines.numberText(roof.number);
    const holds = roof.holds ? `, with a reported size of ${machines.formatNumber(roof.holds, "B", null, true).text}` : "";
    return `${roof.name} of ${owner}: ${`${cell} ${beside}`.trim()}${holds}`;
  };

  const slope = (paper, level, peaks, one, onShow) => {
    const begin = slopesBegin(paper);
    const top = Math.max(...peaks.map((peak) => peak.value));
    const at = (x, rate) => [paper.x(x), paper.y(x * rate)];
    const ends = [at(begin, level.value), at(top / level.value, level.value)];
    const band = [at(begin, level.low), at(top / level.value, level.low), at(top / level.value, level.high), at(begin, level.high)];
    return target(
      `roof slope ${one.look ?? one.kind}`,
      words(level, one.name),
      onShow,
      svg("path", { class: "reach", d: path(ends), "stroke-width": LINE_REACH }),
      svg("path", { class: "band", d: `${path(band)}Z`, "clip-path": "url(#roofline-clip)" }),
      svg("path", { class: "line", d: path(ends) }),
    );
  };

  const flat = (paper, peak, levels, one, onShow) => {
    const from = Math.min(...levels.map((level) => peak.value / level.value));
    const ends = [[paper.x(from), paper.y(peak.value)], [paper.x(10 ** paper.xs[1]), paper.y(peak.value)]];
    return target(
      `roof flat ${one.look ?? one.kind}`,
      words(peak, one.name),
      onShow,
      svg("path", { class: "reach", d: path(ends), "stroke-width": LINE_REACH }),
      svg("path", { class: "line", d: path(ends) }),
    );
  };

  const MARKS = {
    book: (x, y) => svg("circle", { class: "mark", cx: x, cy: y, r: 5 }),
    yours: (x, y) => svg("rect", { class: "mark", x: x - 4.5, y: y - 4.5, width: 9, height: 9 }),
    kernel: (x, y) => svg("path", { class: "mark", d: `M${x},${y - 8}L${x + 7},${y}L${x},${y + 8}L${x - 7},${y}Z` }),
  };

  const point = (paper, spot, kind, label, onShow) => {
    const [x, y] = [paper.x(spot.intensity), paper.y(spot.value)];
    return target(
      `spot ${kind}`,
      label,
      onShow,
      svg("circle", { class: "reach", cx: x, cy: y, r: REACH / 2 }),
      svg("line", { class: "bar", x1: x, x2: x, y1: paper.y(spot.low), y2: paper.y(spot.high) }),
      MARKS[kind](x, y),
    );
  };

  /** Names of roofs, pushed apart where they would lie on one another. */
  const names = (paper, entries, anchor) => {
    const group = svg("g", { class: "roofline-names", "aria-hidden": "true" });
    let last = Infinity;
    for (const { text, x, y, kind } of [...entries].sort((a, b) => b.y - a.y)) {
      last = Math.min(y, last - LINE);
      group.append(svg("text", { x, y: last, class: kind, "text-anchor": anchor }, text));
    }
    return group;
  };

  const namesOf = (paper, shown) => {
    const many = shown.length > 1;
    const named = (roof, one) => (many ? `${roof.name}, ${one.short}` : roof.name);
    const left = shown.flatMap((one) =>
      one.levels.map((level) => ({ text: named(level, one), kind: one.look ?? one.kind, x: MARGIN.left + 4, y: paper.y(level.value * slopesBegin(paper)) + 4 })),
    );
    const right = shown.flatMap((one) =>
      one.peaks.map((peak) => ({ text: named(peak, one), kind: one.look ?? one.kind, x: paper.width - MARGIN.right, y: paper.y(peak.value) - 5 })),
    );
    return [names(paper, left, "start"), names(paper, right, "end")];
  };

  const pointWords = (spot, one) => {
    const { cell, beside } = machines.numberText(spot.number);
    const where = `${machines.formatNumber(spot.intensity, "FLOP/B").text}`;
    return `${spot.name} on ${one.name}: ${`${cell} ${beside}`.trim()} at ${where}${spot.words ? `, ${spot.words}` : ""}`;
  };

  /**
   * Returns the drawing.
   * @param {number} width in CSS pixels.
   * @param shown machines, each with name, short, kind, peaks, levels, points.
   * @param kernel the reader's own: {intensity, value, label}, or null.
   * @param {(label: string, group: SVGElement) => void} onShow told what the reader looks at.
   */
  machines.drawRoofline = (width, shown, kernel, onShow) => {
    const longest = Math.max(...shown.flatMap((one) => one.levels.map(({ name }) => `${name}${shown.length > 1 ? `, ${one.short}` : ""}`.length)));
    const named = Math.min(longest * LETTER + 18, width / 3);
    const paper = new Paper(width, named, ...ranges(shown, kernel, width, named));
    const drawing = svg("svg", { viewBox: `0 0 ${paper.width} ${paper.height}`, width: paper.width, height: paper.height, role: "group", "aria-label": "Roofline: press Tab to go through the roofs and points and read their values" });
    const inside = svg("rect", { x: MARGIN.left, y: 0, width: paper.width - MARGIN.left, height: paper.height - MARGIN.bottom });
    drawing.append(svg("clipPath", { id: "roofline-clip" }, inside), axes(paper));
    for (const one of shown) {
      drawing.append(
        ...one.levels.map((level) => slope(paper, level, one.peaks, one, onShow)),
        ...one.peaks.map((peak) => flat(paper, peak, one.levels, one, onShow)),
      );
    }
    drawing.append(...namesOf(paper, shown));
    for (const one of shown) drawing.append(...one.points.map((spot) => point(paper, spot, one.kind, pointWords(spot, one), onShow)));
    if (kernel) drawing.append(point(paper, kernel, "kernel", kernel.label, onShow));
    return drawing;
  };
}
