// A reader's own cluster: the best splits of a model over its ranks, and how far the model scales. All of it modelled.
"use strict";

{
  const { element } = globalThis.machines;
  const SHOWN = 6; // splits in the table
  const FARTHEST = 4096; // ranks that the curves reach at least
  const NAMES = { stays: "the batch stays", grows: "the batch grows with the ranks" };
  const PARTS = [
    ["bubble", "Bubble"], ["tensor", "Sums of activations"], ["handing", "Hand-over"], ["gradients", "Gradients"],
  ];

  const text = (value, unit) => machines.formatNumber(value, unit).text;
  const splitName = ({ split }) => `${split.data} × ${split.tensor} × ${split.pipeline}`;
  const splitWords = ({ split }) => {
    const cut = split.micro > 1 ? `, in ${split.micro.toLocaleString("en")} micro-batches` : "";
    return `data ${split.data} × tensor ${split.tensor} × pipeline ${split.pipeline}${cut}`;
  };
  const tag = () => element("span", { class: "kind-tag" }, "model");

  /** A table of modelled numbers; the first cell of a row names it. */
  const table = (caption, heads, rows) => machines.table([caption, " ", tag()], heads, rows, "numeric", "numeric modelled");

  class Explorer {
    constructor(place) {
      this.form = new cluster.Form(JSON.parse(place.dataset.presets), () => this.soon());
      this.answer = element("p", { role: "status", class: "cluster-answer" });
      this.splits = element("div", { class: "cluster-splits" });
      this.chart = new explorers.Chart("Point at a point, or reach it with the tab key.");
      this.key = element("p", { class: "cluster-key" });
      this.curveTable = element("div");
      const folded = element("details", { class: "cluster-curve" }, element("summary", {}, "The curves as a table"), this.curveTable);
      this.sources = element("p", { class: "cluster-sources" });
      place.replaceChildren(this.form.element, this.answer, this.splits, this.key, this.chart.place, this.chart.readout, folded, this.sources);
      this.update();
      new ResizeObserver(() => this.draw()).observe(this.chart.place);
    }

    /** Computes once for all that a reader types until the next picture. */
    soon() {
      if (this.waiting) return;
      this.waiting = true;
      requestAnimationFrame(() => {
        this.waiting = false;
        this.update();
      });
    }

    update() {
      const found = this.form.values();
      if (found === null) {
        this.answer.textContent = "Nothing is computed until every field holds what it must.";
        return;
      }
      this.found = found;
      const { workload, links, ranks, options } = found;
      this.one = cluster.predict(workload, links, {});
      this.best = cluster.bestSplits(workload, links, ranks, options);
      this.say();
      this.curves = this.makeCurves();
      this.list();
      this.draw();
      this.sources.replaceChildren(...this.form.sources().flatMap(([name, address], i) => [
        i ? ", " : "The presets are from ", element("a", { class: "reference external", href: address }, name),
      ]), ...(this.form.sources().length ? ["; what you changed is yours."] : []));
    }

    /** Examples a second and rank, over those of one rank that had the memory. */
    efficiency(prediction, examples) {
      return (examples / prediction.seconds / prediction.ranks) * (this.one.seconds / this.found.workload.examples);
    }

    say() {
      const { workload, ranks, options } = this.found;
      const [first] = this.best;
      if (!first) {
        const why = options.memory_bytes === null ? "" : `, or all need more than ${text(options.memory_bytes, "B")}`;
        this.answer.textContent = `No split of ${ranks.toLocaleString("en")} ranks fits: none shares out whole sequences, heads and blocks${why}.`;
        this.splits.replaceChildren();
        return;
      }
      const share = text(this.efficiency(first, workload.examples), "%");
      this.answer.replaceChildren(
        `The fastest of ${this.best.length} split${this.best.length > 1 ? "s" : ""} is ${splitWords(first)}: a step takes ${text(first.seconds, "s")}, `,
        `${text(workload.examples / first.seconds, "1")} sequences a second, with an efficiency of ${share}; `,
        `a rank needs ${text(first.memory.total, "B")}.`,
        tag(),
      );
      this.splits.replaceChildren(
        table(
          "The fastest splits, each with its best number of micro-batches; parts of the step in per cent of it",
          ["Data × tensor × pipeline", "Micro-batches", "Step", "Efficiency", "Memory of a rank", ...PARTS.map(([, name]) => name)],
          this.best.slice(0, SHOWN).map((one) => [
            splitName(one),
            one.split.micro.toLocaleString("en"),
            text(one.seconds, "s"),
            text(this.efficiency(one, workload.examples), "%"),
            text(one.memory.total, "B"),
            ...PARTS.map(([part]) => text(one[part] / one.seconds, "%")),
          ]),
        ),
      );
    }

    makeCurves() {
      const { workload, links, ranks, options } = this.found;
      const numbers = new Set([ranks]);
      for (let number = 1; number <= Math.max(FARTHEST, ranks); number *= 2) numbers.add(number);
      const each = Math.max(1, Math.floor(workload.examples / ranks));
      const examplesOf = { stays: () => workload.examples, grows: (number) => each * number };
      return ["stays", "grows"].map((how, i) => ({
        how,
        shape: i ? "square" : "circle",
        points: [...numbers].sort((a, b) => a - b).flatMap((number) => {
          const examples = examplesOf[how](number);
          const [first] = cluster.bestSplits({ ...workload, examples }, links, number, options);
          if (!first) return [];
          const efficiency = this.efficiency(first, examples);
          const label = `${number.toLocaleString("en")} ranks, ${NAMES[how]}: ${text(efficiency, "%")} efficiency, a step of ${text(first.seconds, "s")} with ${splitWords(first)} (modelled)`;
          return [{ ranks: number, efficiency, label, prediction: first, examples }];
        }),
      }));
    }

    list() {
      const byRanks = new Map();
      for (const { how, points } of this.curves) for (const point of points) byRanks.set(point.ranks, { ...byRanks.get(point.ranks), [how]: point });
      const cells = (point) => (point ? [splitName(point.prediction), text(point.prediction.seconds, "s"), text(point.efficiency, "%")] : ["–", "–", "–"]);
      this.curveTable.replaceChildren(
        table(
          `Efficiency over ranks: first ${NAMES.stays}, then ${NAMES.grows}`,
          ["Ranks", "Split", "Step", "Efficiency", "Split, batch grows", "Step", "Efficiency"],
          [...byRanks].sort(([a], [b]) => a - b).map(([number, found]) => [number.toLocaleString("en"), ...cells(found.stays), ...cells(found.grows)]),
        ),
      );
    }

    draw() {
      if (!this.curves) return;
      const drawn = this.curves.filter(({ points }) => points.length);
      this.key.replaceChildren(
        "Efficiency over ranks, each with its fastest split ", tag(), ": ",
        ...drawn.flatMap(({ how, shape }, i) => [i ? ", " : "", element("span", { class: `cluster-mark ${shape}`, "aria-hidden": "true" }), ` ${NAMES[how]}`]),
        ". An efficiency of 100 % is what a single rank with memory enough would do.",
      );
      if (!drawn.length) {
        this.chart.lack("Nothing to draw: no number of ranks has a split that fits.");
        return;
      }
      this.chart.show((width, onShow) => cluster.draw(width, drawn, onShow));
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const place of document.querySelectorAll(".cluster-explorer")) {
      new Explorer(place);
      explorers.takeOver(place);
    }
  });
}
