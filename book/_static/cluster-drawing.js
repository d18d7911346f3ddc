// Draws modelled efficiency over the number of ranks as SVG, as wide as its place; every point can have the focus.
"use strict";

globalThis.cluster ??= {};

{
  const { svg } = globalThis.explorers;
  const MARGIN = { left: 60, right: 20, top: 12, bottom: 48 };
  const REACH = 12; // half of a target's width: 24 px, as WCAG 2.2 asks (2.5.8)

  /** A circle for the first curve, a square for the second: nothing rests on colour alone. */
  const mark = (shape, x, y) =>
    shape === "square"
      ? svg("rect", { class: "mark", x: x - 4.5, y: y - 4.5, width: 9, height: 9 })
      : svg("circle", { class: "mark", cx: x, cy: y, r: 5 });

  const axes = ({ width, height, x, y, most }) => {
    const frame = { width, height, margin: MARGIN };
    const group = explorers.axes(frame, "ranks", "efficiency (%)");
    const step = Math.ceil(Math.log2(most) / Math.max(Math.floor((width - MARGIN.left) / 52), 2));
    for (let power = 0; 2 ** power <= most; power += step) {
      group.append(...explorers.tick(frame, { x: x(2 ** power) }, (2 ** power).toLocaleString("en")));
    }
    for (const share of [0, 0.25, 0.5, 0.75, 1]) group.append(...explorers.tick(frame, { y: y(share) }, String(share * 100)));
    return group;
  };

  /**
   * Returns the drawing.
   * @param {number} width in CSS pixels.
   * @param curves [{name, shape, points: [{ranks, efficiency, label}]}], points where something fits.
   * @param {(label: string, group: SVGElement) => void} onShow told what the reader looks at.
   */
  cluster.draw = (width, curves, onShow) => {
    const height = Math.round(Math.min(Math.max(width * 0.5, 240), 340));
    const most = Math.max(...curves.flatMap(({ points }) => points.map(({ ranks }) => ranks)), 2);
    const x = (ranks) => MARGIN.left + ((width - MARGIN.left - MARGIN.right) * Math.log2(ranks)) / Math.log2(most);
    const y = (share) => height - MARGIN.bottom - (height - MARGIN.bottom - MARGIN.top) * Math.min(share, 1.02);
    const drawing = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "group", "aria-label": "Modelled efficiency over the number of ranks: each point can be reached with the tab key and says its values" });
    drawing.append(axes({ width, height, x, y, most }));
    for (const { shape, points } of curves) {
      const path = points.map(({ ranks, efficiency }, i) => `${i ? "L" : "M"}${x(ranks).toFixed(1)},${y(efficiency).toFixed(1)}`).join("");
      drawing.append(svg("path", { class: `curve ${shape}`, d: path }));
    }
    for (const { shape, points } of curves) {
      for (const { ranks, efficiency, label } of points) {
        const [cx, cy] = [x(ranks), y(efficiency)];
        const reach = svg("circle", { class: "reach", cx, cy, r: REACH });
        drawing.append(explorers.target(`spot ${shape}`, label, onShow, reach, mark(shape, cx, cy)));
      }
    }
    return drawing;
  };
}
