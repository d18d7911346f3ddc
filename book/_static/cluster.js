// The cluster explorer: a reader chooses cluster, model, batch and ranks, and sees what the build computed for them. Every
// number comes from the grid of tinytorch/chapters/distributed/explorer.py, a script; all of it is modelled.
"use strict";

globalThis.cluster ??= {};

{
  const { element } = globalThis.machines;
  const HEADS = ["Data × tensor × pipeline", "Micro-batches", "Step", "Efficiency", "Memory of a rank", "Bubble", "Messages"];
  const WORDS = { stays: "the batch stays constant", grows: "the batch grows with the ranks" };

  const text = (value, unit) => machines.formatNumber(value, unit).text;
  const count = (number) => number.toLocaleString("en");
  const tag = () => element("span", { class: "kind-tag" }, "model");
  /** A row of the grid by its names. */
  const named = ([data, tensor, pipeline, micro, seconds, efficiency, bytes]) => ({ data, tensor, pipeline, micro, seconds, efficiency, bytes });
  const splitName = ({ data, tensor, pipeline }) => `${data} × ${tensor} × ${pipeline}`;
  const splitWords = ({ data, tensor, pipeline, micro }) =>
    `data ${data} × tensor ${tensor} × pipeline ${pipeline}${micro > 1 ? `, in ${count(micro)} micro-batches` : ""}`;
  /** A table of modelled numbers; the first cell of a row names it. */
  const table = (caption, heads, rows) => machines.table([caption, " ", tag()], heads, rows, "numeric", "numeric modelled");

  class Explorer {
    constructor(place, grid) {
      this.grid = grid;
      const { clusters, models, ranks, start } = this.grid;
      this.choices = {};
      const choice = (name, label, options, value) => {
        const select = element("select", { id: `cluster-${name}` });
        select.addEventListener("change", () => {
          this.update(name);
          for (const [each, { selectedOptions }] of Object.entries(this.choices)) explorers.address.set(each, selectedOptions[0].textContent);
        });
        this.choices[name] = select;
        const given = options.indexOf(explorers.address.get(name));
        this.offer(name, options, given < 0 ? value : given);
        return element("p", {}, element("label", { for: select.id }, label), select);
      };
      const form = explorers.form(
        "cluster-form",
        "A cluster and a model",
        explorers.fieldset(
          "Choose",
          choice("cluster", "Cluster", clusters.map(({ name }) => name), 0),
          choice("model", "Model", models.map(({ name }) => name), 0),
          choice("batch", "Batch, in sequences", models[this.chosen("model")].batches.map(count), 1),
          choice("ranks", "Ranks", ranks.map(count), start),
        ),
      );
      this.about = element("p", { class: "cluster-about" });
      this.answer = element("p", { role: "status", class: "cluster-answer" });
      this.splits = element("div", { class: "cluster-splits" });
      this.chart = new explorers.Chart("Point at a point, or reach it with the tab key.");
      this.key = element("p", { class: "cluster-key" });
      this.curveTable = element("div");
      const folded = element("details", { class: "cluster-curve" }, element("summary", {}, "The curves as a table"), this.curveTable);
      this.sources = element("p", { class: "cluster-sources" });
      place.replaceChildren(form, this.about, this.answer, this.splits, this.key, this.chart.place, this.chart.readout, folded, this.sources);
      this.update();
      new ResizeObserver(() => this.draw()).observe(this.chart.place);
    }

    offer(name, options, value) {
      this.choices[name].replaceChildren(...options.map((option, at) => element("option", { value: String(at) }, option)));
      this.choices[name].value = String(value);
    }

    chosen(name) {
      return Number(this.choices[name].value);
    }

    update(changed) {
      const { grid } = this;
      this.cluster = grid.clusters[this.chosen("cluster")];
      this.model = grid.models[this.chosen("model")];
      if (changed === "model") this.offer("batch", this.model.batches.map(count), this.chosen("batch"));
      this.cells = grid.cells[this.chosen("cluster")][this.chosen("model")];
      this.say();
      this.curves = ["stays", "grows"].map((how, i) => {
        const cells = how === "stays" ? this.cells.stays[this.chosen("batch")] : this.cells.grows;
        const points = cells.flatMap(([fitting, first], at) => (fitting ? [this.point(how, grid.ranks[at], named(first))] : []));
        return { how, shape: i ? "square" : "circle", points };
      });
      this.list();
      this.draw();
      const sources = new Map([...this.cluster.sources, ...this.model.sources]);
      this.sources.replaceChildren(
        "Clusters and models are from ",
        ...[...sources].flatMap(([name, address], i) => [i ? ", " : "", element("a", { class: "reference external", href: address }, name)]),
        ".",
      );
    }

    point(how, ranks, found) {
      const label = `${count(ranks)} ranks, ${WORDS[how]}: ${text(found.efficiency, "%")} efficiency, a step of ${text(found.seconds, "s")} with ${splitWords(found)} (modelled)`;
      return { ranks, efficiency: found.efficiency, label, found };
    }

    say() {
      const { cluster, model } = this;
      const link = ([latency, rate]) => `a latency of ${text(latency, "s")}${rate === null ? "" : ` and a bandwidth of ${text(rate, "B/s")}`}`;
      const memory = cluster.memory_bytes === null ? "unlimited memory" : `${text(cluster.memory_bytes, "B")} of memory`;
      this.about.textContent = `A rank reaches ${text(cluster.flops_per_second, "FLOP/s")} and has ${memory}. A node has ${cluster.ranks_per_node} ranks. A link inside a node has ${link(cluster.inside)}; a link between nodes has ${link(cluster.between)}. The optimizer's state is sharded.`;
      const ranks = this.grid.ranks[this.chosen("ranks")];
      const [fitting, ...rows] = this.cells.stays[this.chosen("batch")][this.chosen("ranks")];
      if (!fitting) {
        const why = cluster.memory_bytes === null ? "" : `, or all need more than ${text(cluster.memory_bytes, "B")}`;
        this.answer.textContent = `No split of ${count(ranks)} ranks fits: none gives each rank whole sequences, heads and blocks${why}.`;
        this.splits.replaceChildren();
        return;
      }
      const first = named(rows[0]);
      this.answer.replaceChildren(
        `The fastest of ${fitting} split${fitting > 1 ? "s" : ""} is ${splitWords(first)}: a step of ${count(model.batches[this.chosen("batch")])} sequences takes ${text(first.seconds, "s")}, `,
        `with an efficiency of ${text(first.efficiency, "%")}; a rank needs ${text(first.bytes, "B")}.`,
        tag(),
      );
      const cells = (row) => {
        const one = named(row);
        const shares = row.slice(-2).map((share) => text(share, "%"));
        return [splitName(one), count(one.micro), text(one.seconds, "s"), text(one.efficiency, "%"), text(one.bytes, "B"), ...shares];
      };
      this.splits.replaceChildren(table("The fastest splits, each with its best number of micro-batches, and the parts of the step as a percentage of its time", HEADS, rows.map(cells)));
    }

    list() {
      const byRanks = new Map();
      for (const { how, points } of this.curves) for (const { ranks, found } of points) byRanks.set(ranks, { ...byRanks.get(ranks), [how]: found });
      const cells = (found) => (found ? [splitName(found), text(found.efficiency, "%")] : ["–", "–"]);
      this.curveTable.replaceChildren(
        table(
          "Efficiency with a constant batch, and with a batch that grows with the ranks",
          ["Ranks", "Split", "Efficiency", "Split, batch grows", "Efficiency"],
          [...byRanks].sort(([a], [b]) => a - b).map(([ranks, { stays, grows }]) => [count(ranks), ...cells(stays), ...cells(grows)]),
        ),
      );
    }

    draw() {
      const drawn = this.curves.filter(({ points }) => points.length);
      this.key.replaceChildren(
        "Efficiency over ranks, each with its fastest split ", tag(), ": ",
        ...drawn.flatMap(({ how, shape }, i) => [i ? ", " : "", element("span", { class: `cluster-mark ${shape}`, "aria-hidden": "true" }), ` ${WORDS[how]}${how === "grows" ? `, ${this.grid.each} sequences each` : ""}`]),
        ". 100 % is the efficiency of a single rank with enough memory.",
      );
      if (drawn.length) this.chart.show((width, onShow) => cluster.draw(width, drawn, onShow));
      else this.chart.lack("Nothing to draw: no split fits, whatever the number of ranks.");
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    for (const place of document.querySelectorAll(".cluster-explorer")) {
      explorers.whenNear(place, async () => {
        new Explorer(place, await explorers.load(place.dataset.grid, "tinytorchClusters"));
        explorers.takeOver(place);
      });
    }
  });
}
