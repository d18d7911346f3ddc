// The fields of a reader's cluster, model and training: what they hold, what may be typed, and what is wrong with it.
"use strict";

globalThis.cluster ??= {};

{
  const { element } = globalThis.machines;
  const PREFIXES = [[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""], [1e-3, "m"], [1e-6, "u"], [1e-9, "n"], [1e-12, "p"]];

  /** A number as a reader would type it: 3e11 is "300 G". */
  cluster.typed = (value) => {
    if (value === null) return "";
    if (Number.isInteger(value) && value < 1e6) return String(value);
    const [factor, prefix] = PREFIXES.find(([size]) => value >= size) ?? [1, ""];
    return `${Number((value / factor).toPrecision(4))} ${prefix}`.trim();
  };

  const whole = (most) => (value) => (Number.isInteger(value) && value <= most ? null : `must be a whole number up to ${most.toLocaleString("en")}`);
  const upTo = (most) => (value) => (value <= most ? null : `must be at most ${most}`);
  const any = () => null;

  /** Name, label, unit and example, check of the value, and whether it may be 0 or left out. */
  const FIELDS = {
    Cluster: [
      ["ranks", "Ranks", "", whole(65536)],
      ["ranks_per_node", "Ranks in a node", "", whole(65536)],
      ["flops_per_second", "Rate of a rank", "FLOP/s that it attains, such as 137 T", any],
      ["memory_bytes", "Memory of a rank", "B, such as 80 G; empty for no limit", any, "optional"],
      ["inside_alpha", "Latency in a node", "s, such as 3.4 u", any, "zero"],
      ["inside_bandwidth", "Bandwidth in a node", "B/s in one direction, such as 300 G", any],
      ["between_alpha", "Latency between", "s between nodes, such as 14 u", any, "zero"],
      ["between_bandwidth", "Bandwidth between", "B/s for each rank, such as 25 G", any],
    ],
    Model: [
      ["layers", "Blocks", "", whole(10000)],
      ["width", "Width", "", whole(1e6)],
      ["heads", "Heads", "", whole(10000)],
      ["positions", "Positions", "", whole(1e7)],
      ["vocabulary", "Vocabulary", "", whole(1e7)],
      ["examples", "Batch, in sequences", "", whole(1e6)],
    ],
    Training: [["overlap", "Hidden gradients", "share of backward that hides them, 0 to 1", upTo(1), "zero"]],
  };
  const SHARDING = ["nothing", "optimizer state", "and gradients", "and parameters"];

  const parsed = (text, may) => {
    const bare = text.trim();
    if (may === "optional" && bare === "") return null;
    if (may === "zero" && Number(bare) === 0 && bare !== "") return 0;
    return machines.typedNumber(bare.replace(/\s*p$/, "e-12")) ?? undefined;
  };

  /** One field with its label and hint; `read` returns its value, or undefined where it is wrong. */
  class Field {
    constructor([name, label, hint, check, may = ""], onChange) {
      Object.assign(this, { name, check, may, hint });
      Object.assign(this, explorers.field(`cluster-${name.replaceAll("_", "-")}`, label, hint));
      this.input.addEventListener("input", onChange);
    }
    set(value) {
      this.input.value = cluster.typed(value);
    }
    read() {
      const value = parsed(this.input.value, this.may);
      const wrong = value === undefined ? ["must be a number above 0", this.hint].filter(Boolean).join(": ") : value === null ? null : this.check(value);
      this.input.setAttribute("aria-invalid", String(Boolean(wrong)));
      this.said.textContent = wrong ?? this.hint;
      return wrong ? undefined : value;
    }
    refuse(why) {
      this.input.setAttribute("aria-invalid", "true");
      this.said.textContent = why;
    }
  }

  const choice = (id, label, names, onChange) => {
    const select = element("select", { id }, ...names.map((name, value) => element("option", { value: String(value) }, name)));
    select.addEventListener("change", onChange);
    return [select, element("p", {}, element("label", { for: id }, label), select)];
  };

  /** The form. `onChange` is called after each change; `values()` returns all values, or null while one is wrong. */
  cluster.Form = class {
    constructor(presets, onChange) {
      this.presets = presets;
      this.fields = new Map();
      const group = (legend, ...first) => {
        const own = FIELDS[legend].map((row) => new Field(row, onChange));
        for (const field of own) this.fields.set(field.name, field);
        return explorers.fieldset(legend, ...first, ...own.map((field) => field.place));
      };
      const preset = (kind, label, take) => {
        const names = presets[kind].map((one) => one.name);
        const [select, place] = choice(`cluster-preset-${kind}`, label, names, () => {
          take(presets[kind][Number(select.value)]);
          onChange();
        });
        place.className = "cluster-preset";
        return [select, place];
      };
      const [clusters, clusterPlace] = preset("clusters", "Begin with", (one) => this.takeCluster(one));
      const [models, modelPlace] = preset("models", "Begin with", (one) => this.takeModel(one));
      Object.assign(this, { clusters, models });
      [this.sharding, this.shardingPlace] = choice("cluster-sharding", "Data split shares out", SHARDING, onChange);
      [this.numbers, this.numbersPlace] = choice("cluster-numbers", "Numbers", ["2 bytes, mixed", "4 bytes"], onChange);
      [this.recompute, this.recomputePlace] = choice("cluster-recompute", "Activations", ["computed twice", "kept"], onChange);
      this.element = explorers.form(
        "cluster-form",
        "Your cluster",
        group("Cluster", clusterPlace),
        group("Model", modelPlace),
        group("Training", this.shardingPlace, this.numbersPlace, this.recomputePlace),
      );
      this.takeCluster(presets.clusters[0]);
      this.takeModel(presets.models[0]);
      this.fields.get("ranks").set(presets.ranks);
      this.fields.get("overlap").set(0);
      this.sharding.value = String(presets.sharding);
    }
    takeCluster(one) {
      const { inside, between } = one;
      const found = {
        ...one,
        inside_alpha: inside.alpha_s, inside_bandwidth: 1 / inside.beta_s_per_byte,
        between_alpha: between.alpha_s, between_bandwidth: 1 / between.beta_s_per_byte,
      };
      for (const [name] of FIELDS.Cluster) if (name in found) this.fields.get(name).set(found[name]);
    }
    takeModel(one) {
      for (const [name] of FIELDS.Model) this.fields.get(name).set(one[name]);
    }
    /** Who published the two presets, each once. */
    sources() {
      const both = [this.presets.clusters[Number(this.clusters.value)], this.presets.models[Number(this.models.value)]];
      return [...new Map(both.flatMap((one) => one.sources)).entries()];
    }
    values() {
      const read = new Map([...this.fields].map(([name, field]) => [name, field.read()]));
      if ([...read.values()].includes(undefined)) return null;
      const value = (name) => read.get(name);
      if (value("width") % value("heads")) {
        this.fields.get("width").refuse(`must be a multiple of the ${value("heads")} heads`);
        return null;
      }
      const line = (where) => ({ alpha_s: value(`${where}_alpha`), beta_s_per_byte: 1 / value(`${where}_bandwidth`) });
      return {
        ranks: value("ranks"),
        links: { inside: line("inside"), between: line("between"), ranks_per_node: value("ranks_per_node") },
        options: { memory_bytes: value("memory_bytes"), sharding: Number(this.sharding.value), overlap: value("overlap") },
        workload: cluster.transformer({
          ...Object.fromEntries(FIELDS.Model.map(([name]) => [name, value(name)])),
          flops_per_second: value("flops_per_second"),
          recompute: this.recompute.value === "0",
          number_bytes: this.numbers.value === "0" ? 2 : 4,
        }),
      };
    }
  };
}
