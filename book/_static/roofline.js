// The roofline that a reader explores: whose roofs, how many threads, which arithmetic, and a kernel of their own.
"use strict";

{
  const element = globalThis.machines.element;
  const FIELDS = [
    ["operations", "Operations", "FLOP", "such as 2 GFLOP"],
    ["bytes", "Bytes that it moves", "B", "such as 12 MiB"],
    ["seconds", "Time, if known", "s", "such as 5 ms"],
  ];
  const { address } = globalThis.explorers;
  const listed = (name) => address.get(name)?.split(",").filter((one) => one && one !== "none") ?? null;
  let count = 0;

  const checkbox = (label, checked, onChange, type = "checkbox", name = "") => {
    count += 1;
    const input = element("input", { type, id: `roofline-choice-${count}` });
    if (name) input.name = name;
    input.checked = checked;
    input.addEventListener("change", () => onChange(input.checked));
    return element("label", { class: "roofline-choice", for: input.id }, input, ` ${label}`);
  };

  class Explorer {
    constructor(place, data) {
      this.place = place;
      this.all = [
        { ...machines.roofline(data.measurements, "the book's machine", "book"), short: "book" },
        ...data.published.map((one, place) => ({ ...machines.published(one), short: one.short, look: place ? "published other" : "published" })),
      ];
      const known = this.all.filter(({ short }) => listed("roofs")?.includes(short)).map(({ name }) => name);
      this.on = new Set(listed("roofs") ? known : [this.all[0].name]);
      this.allThreads = address.get("threads") === "all";
      this.peaks = new Set(listed("peaks") ?? ["FP32"]);
      this.off = new Set(listed("without") ?? []); // levels that the reader switched off
      this.values = {};
      this.chart = new explorers.Chart("Point at a roof or a point, or reach it with the tab key.");
      this.choices = element("div", { class: "roofline-choices" });
      this.sources = element("div", { class: "roofline-sources" });
      this.answer = element("p", { role: "status", class: "roofline-answer" });
      place.replaceChildren(this.choices, this.chart.place, this.chart.readout, this.sources, this.kernelForm(), this.answer);
      this.build();
      new ResizeObserver(() => this.draw()).observe(this.chart.place);
    }

    /** Takes the reader's machine, or forgets it. */
    take(document) {
      const name = "your machine";
      this.all = this.all.filter((one) => one.kind !== "yours");
      this.on.delete(name);
      const made = document && machines.roofline(document, name, "yours");
      if (made) {
        this.all.splice(1, 0, { ...made, short: "yours" });
        this.on.add(name);
      }
      this.build();
      this.draw();
    }

    /** Draws what the reader chose, and keeps it in the address, where it differs from what a page begins with. */
    choose() {
      const roofs = this.all.filter((one) => one.kind !== "yours" && this.on.has(one.name)).map(({ short }) => short).join() || "none";
      const peaks = [...this.peaks].join() || "none";
      address.set("roofs", roofs === "book" ? "" : roofs);
      address.set("threads", this.allThreads ? "all" : "");
      address.set("peaks", peaks === "FP32" ? "" : peaks);
      address.set("without", [...this.off].join());
      address.set("arithmetic", this.arithmetic.value === "FP32" ? "" : this.arithmetic.value);
      address.set("held", this.held.value === "memory" ? "" : this.held.value);
      this.draw();
    }

    toggle(set, name) {
      return (checked) => {
        if (checked) set.add(name);
        else set.delete(name);
        this.choose();
      };
    }

    build() {
      const book = this.all[0];
      const named = (pick) => [...new Set(this.all.flatMap((one) => one.sets.flatMap(pick).map((roof) => roof.name)))];
      const whose = this.all.map((one) => checkbox(one.name, this.on.has(one.name), this.toggle(this.on, one.name)));
      const threads = [false, true].map((all) =>
        checkbox(all ? "all cores" : "one", this.allThreads === all, () => {
          this.allThreads = all;
          this.choose();
        }, "radio", "roofline-threads"),
      );
      const peaks = named((set) => set.peaks).map((name) => checkbox(name, this.peaks.has(name), this.toggle(this.peaks, name)));
      const levels = named((set) => set.levels).map((name) =>
        checkbox(name, !this.off.has(name), (checked) => {
          if (checked) this.off.delete(name);
          else this.off.add(name);
          this.choose();
        }),
      );
      const several = book.sets.length > 1 || this.all.some((one) => one.kind === "yours" && one.sets.length > 1);
      this.choices.replaceChildren(
        explorers.fieldset("Machine", ...whose),
        ...(several ? [explorers.fieldset("Threads", ...threads)] : []),
        explorers.fieldset("Arithmetic", ...peaks),
        explorers.fieldset("Levels of memory", ...levels),
      );
      const options = (select, names, first) => {
        const before = select.value;
        select.replaceChildren(...names.map((name) => element("option", {}, name)));
        select.value = names.includes(before) ? before : first;
      };
      options(this.held, named((set) => set.levels), address.get("held") ?? "memory");
      options(this.arithmetic, named((set) => set.peaks), address.get("arithmetic") ?? "FP32");
    }

    /** The machines that are drawn, each with the roofs that were chosen. */
    shown() {
      return this.all
        .filter((one) => this.on.has(one.name))
        .map((one) => {
          const sets = [...one.sets].sort((a, b) => a.threads - b.threads);
          const set = this.allThreads ? sets.at(-1) : sets[0];
          const name = set.threads === null ? one.name : `${one.name}, ${set.threads} thread${set.threads > 1 ? "s" : ""}`;
          const points = this.allThreads && sets.length > 1 ? [] : one.points; // they ran on one thread
          const pick = (roofs, wanted) => roofs.filter(({ name: roof }) => wanted(roof));
          return {
            ...one, name, points, set,
            peaks: pick(set.peaks, (roof) => this.peaks.has(roof)),
            levels: pick(set.levels, (roof) => !this.off.has(roof)),
          };
        })
        .filter((one) => one.peaks.length && one.levels.length);
    }

    draw() {
      const shown = this.shown();
      const quoted = shown.filter((one) => one.kind === "published");
      this.sources.replaceChildren(
        ...quoted.map((one) => element("p", {}, `${one.name}: quoted from `, element("a", { class: "reference external", href: one.address }, one.source), ".")),
      );
      if (!shown.length) {
        this.chart.lack("Nothing to draw. Choose a machine, a kind of arithmetic and a level of memory.");
        return;
      }
      this.chart.show((width, onShow) => machines.drawRoofline(width, shown, this.kernelPoint(shown), onShow));
      this.judge(shown);
    }

    kernelForm() {
      const select = (id) => {
        const made = element("select", { id });
        made.addEventListener("change", () => this.choose());
        return made;
      };
      this.held = select("roofline-held");
      this.arithmetic = select("roofline-arithmetic");
      const fields = FIELDS.map(([name, label, unit, hint]) => {
        const { input, said, place } = explorers.field(`roofline-${name}`, label, hint);
        const take = () => {
          const text = input.value.trim();
          const { value = null, problem } = text ? machines.typedNumber(text, unit) : {};
          input.setAttribute("aria-invalid", String(problem !== undefined));
          said.textContent = problem === undefined ? hint : `${text.slice(0, 30)} ${problem}: write a number above 0, ${hint}`;
          this.values[name] = value;
        };
        input.addEventListener("input", () => {
          take();
          address.set(name, this.values[name] === null ? "" : input.value.trim());
          this.draw();
        });
        input.value = address.get(name) ?? "";
        take();
        return place;
      });
      const held = element("p", {}, element("label", { for: "roofline-held" }, "Where its data is"), this.held);
      const kind = element("p", {}, element("label", { for: "roofline-arithmetic" }, "Its arithmetic"), this.arithmetic);
      return explorers.form("roofline-kernel", "Your own kernel", explorers.fieldset("Your own kernel", ...fields, kind, held));
    }

    kernel() {
      const { operations = null, bytes = null, seconds = null } = this.values;
      return operations !== null && bytes !== null ? { operations, bytes, seconds } : null;
    }

    /** The reader's kernel as a point: at its rate, or where it would be on the first machine's roof. */
    kernelPoint(shown) {
      const kernel = this.kernel();
      const [peak, level] = kernel ? this.ceilingsOf(shown[0]) : [];
      if (!peak || !level) return null;
      const { intensity, rate, attained } = machines.bound(kernel, peak, level);
      const value = attained ?? rate;
      const what = attained === null ? "at the roof (modelled)" : "as you timed it";
      const text = machines.formatNumber(value, "FLOP/s").text;
      return { intensity, value, low: value, high: value, label: `Your kernel ${what}: ${text} at ${machines.formatNumber(intensity, "FLOP/B").text}` };
    }

    /** The flat roof of the kernel's arithmetic, and the level in which its data lives, drawn or not. */
    ceilingsOf(one) {
      const named = (roofs, select) => roofs.find((roof) => roof.name === select.value);
      return [named(one.set.peaks, this.arithmetic), named(one.set.levels, this.held)];
    }

    judge(shown) {
      const kernel = this.kernel();
      this.answer.replaceChildren(...(kernel ? shown.map((one) => this.sentence(one, kernel)) : []));
    }

    sentence(one, kernel) {
      const [peak, level] = this.ceilingsOf(one);
      if (!peak || !level) {
        const missing = [peak ? [] : this.arithmetic.value, level ? [] : this.held.value].flat().join(" and no ");
        return element("span", { class: "line" }, `Of ${one.name} no ${missing} is known.`);
      }
      const { rate, leastSeconds, bound, attained, share } = machines.bound(kernel, peak, level);
      const show = (value, unit) => machines.formatNumber(value, unit).text;
      const why = {
        bytes: `memory-bound, because it lies left of the ridge point of ${level.name}`,
        arithmetic: `compute-bound, because it lies right of the ridge point of ${level.name}`,
      };
      const limit = bound ? why[bound] : `memory-bound or compute-bound: it lies within the interval of the ridge point of ${level.name}, so this is not decided`;
      const most = `at most ${show(rate, "FLOP/s")}, so it takes at least ${show(leastSeconds, "s")}`;
      const reached =
        attained === null
          ? ""
          : share > 1.05
            ? ` At ${show(attained, "FLOP/s")} it is above this roof, so its data is in a nearer level, or one of your numbers is wrong.`
            : ` At ${show(attained, "FLOP/s")} it reaches ${show(share, "%")} of this rate.`;
      const tag = element("span", { class: "kind-tag" }, "model");
      return element("span", { class: "line" }, `On ${one.name}, under ${peak.name}, ${limit}; ${most}.${reached}`, tag);
    }
  }

  document.addEventListener("DOMContentLoaded", () => {
    const place = document.querySelector(".roofline-explorer");
    const data = globalThis.tinytorchRoofs;
    if (!place || !data || !machines.roofline(data.measurements, "", "book")) return;
    const explorer = new Explorer(place, data);
    document.addEventListener("your-machine", ({ detail }) => explorer.take(detail));
    explorers.takeOver(place);
  });
}
