// What a roofline is made of: the roofs and points of a machine's records, and what they say of a kernel.
"use strict";

globalThis.machines ??= {};

{
  const table = (document, key) =>
    document.pages.find(({ page }) => page === "your_machine")?.records.find((one) => one.key === key && one.kind === "table");

  /** A table's rows as objects by the keys of its columns. */
  machines.rowsOf = (found) =>
    (found?.rows ?? []).map((row) => new Map(found.columns.map((column, index) => [column.key, row[index]])));

  /** Whether a number has a place on logarithmic axes. */
  const isShown = (number) => number?.value > 0;

  const spread = (number) => number.interval ?? { low: number.value, high: number.value };

  const roofOf = (row) => ({
    name: String(row.get("roof")),
    value: row.get("rate").value,
    ...(({ low, high }) => ({ low, high }))(spread(row.get("rate"))),
    number: row.get("rate"),
    holds: row.get("holds")?.value ?? null,
  });

  /**
   * The roofs and points of a file of measurements, or null if it holds none that can be drawn.
   * @returns {{name, kind, sets: {threads, peaks, levels}[], points}|null}
   */
  machines.roofline = (document, name, kind) => {
    const rows = machines.rowsOf(table(document, "roofs")).filter((row) => isShown(row.get("rate")) && row.get("threads")?.value >= 1);
    const sets = [...new Set(rows.map((row) => row.get("threads").value))].map((threads) => {
      const own = rows.filter((row) => row.get("threads").value === threads);
      const of = (what) => own.filter((row) => row.get("of") === what).map(roofOf);
      return { threads, peaks: of("arithmetic"), levels: of("memory") };
    });
    const drawable = sets.filter((set) => set.peaks.length && set.levels.length);
    const points = machines.rowsOf(table(document, "ops"))
      .filter((row) => row.get("intensity")?.value > 0 && isShown(row.get("attained")))
      .map((row) => ({
        name: String(row.get("name")),
        intensity: row.get("intensity").value,
        ...(({ low, high }) => ({ low, high }))(spread(row.get("attained"))),
        value: row.get("attained").value,
        number: row.get("attained"),
        words: typeof row.get("bound") === "string" ? row.get("bound") : "",
      }));
    return drawable.length ? { name, kind, sets: drawable, points } : null;
  };

  /** A machine of a data sheet: one set, for whatever it has of threads. */
  machines.published = ({ name, source, address, peaks, levels }) => {
    const roofs = (entries, unit) =>
      entries.map(([roof, value]) => {
        const number = { kind: "quoted", value, unit, interval: null };
        return { name: roof, value, low: value, high: value, number, holds: null };
      });
    const set = { threads: null, peaks: roofs(peaks, "FLOP/s"), levels: roofs(levels, "B/s") };
    return { name, kind: "published", source, address, sets: [set], points: [] };
  };

  /**
   * What a roof allows a kernel, and which of its two ceilings decides.
   * @param {{operations: number, bytes: number, seconds: number|null}} kernel
   * @param peak and level are roofs with value, low and high.
   * @returns {{intensity, rate, leastSeconds, bound: "arithmetic"|"bytes"|null, attained, share}} null bound: their order is open.
   */
  machines.bound = ({ operations, bytes, seconds }, peak, level) => {
    const intensity = operations / bytes;
    const rate = Math.min(peak.value, intensity * level.value);
    const ridge = { low: peak.low / level.high, high: peak.high / level.low };
    const bound = intensity < ridge.low ? "bytes" : intensity > ridge.high ? "arithmetic" : null;
    const attained = seconds === null ? null : operations / seconds;
    return { intensity, rate, leastSeconds: operations / rate, bound, attained, share: attained === null ? null : attained / rate };
  };

  const FACTORS = { "": 1, k: 1e3, K: 1e3, M: 1e6, G: 1e9, T: 1e12, P: 1e15, m: 1e-3, u: 1e-6, µ: 1e-6, μ: 1e-6, n: 1e-9, Ki: 2 ** 10, ki: 2 ** 10, Mi: 2 ** 20, Gi: 2 ** 30, Ti: 2 ** 40 };
  const UNITS = { FLOP: ["FLOP", "FLOPs", "OP", "OPs"], B: ["B", "byte", "bytes"], s: ["s"] };
  const TYPED = /^([-−]?)([0-9][0-9,]*\.?[0-9]*|\.[0-9]+)(e[+-]?[0-9]+)?\s*([kKMGT]i|[kKMGTPmuµμn])?\s*([A-Za-z]+(?:\/[A-Za-z]+)?)?$/;

  /**
   * A number as a reader types it: "1e9", "2.5 GFLOP", "64 KiB", "5 ms", "1,5 ms".
   * @param {string} text
   * @param {"FLOP"|"B"|"s"} unit the field's.
   * @returns {{value: number}|{problem: string}} the value in the field's unit, or what is wrong with the text.
   */
  machines.typedNumber = (text, unit) => {
    const trimmed = text.trim();
    const found = [...Object.values(UNITS)].flat().includes(trimmed) ? null : TYPED.exec(trimmed);
    if (!found) return { problem: "is not a number" };
    let [, sign, digits, exponent = "", prefix = "", given = ""] = found;
    if (`${prefix}${given}` === "min") return { problem: "is in minutes; give it in seconds" };
    if (given && !UNITS[unit].includes(given)) return { problem: given.includes("/") ? "is a rate" : `is in ${given}, not in ${unit}` };
    if (unit !== "s" && FACTORS[prefix] < 1) return { problem: `has the prefix ${prefix}, which means less than one; M means a million` };
    if (unit === "s" && prefix.endsWith("i")) return { problem: `has the prefix ${prefix}, which is only for bytes` };
    // A comma between groups of three parts thousands; a single one elsewhere is a decimal point.
    const grouped = /^[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?$/.test(digits);
    if (digits.includes(",") && !grouped && !/^[0-9]+,[0-9]+$/.test(digits)) return { problem: "has a comma that does not separate thousands" };
    const value = Number((grouped ? digits.replaceAll(",", "") : digits.replace(",", ".")) + exponent) * FACTORS[prefix];
    if (sign || value === 0) return { problem: "is not above 0" };
    return value > 1e-30 && value < 1e30 ? { value } : { problem: "is too large or too small to be drawn" };
  };
}
