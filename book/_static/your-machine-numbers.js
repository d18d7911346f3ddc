// Numbers of a reader's own machine, by the rules of tinytorch/report/numbers.py, and the ratio of two machines.
"use strict";

globalThis.machines ??= {};

{
  const NO_BREAK = "\u00a0";
  const MOST_DIGITS = 4;
  const DIGITS_WITHOUT_INTERVAL = 3;
  const STEPS = [[1, ""], [1e3, "k"], [1e6, "M"], [1e9, "G"], [1e12, "T"]];
  const decimal = (unit) => STEPS.map(([factor, prefix]) => [factor, prefix + unit]);
  const SCALES = new Map([
    ["s", [[1e-9, "ns"], [1e-6, "µs"], [1e-3, "ms"], [1, "s"], [60, "min"]]],
    ["B", ["B", "KiB", "MiB", "GiB", "TiB"].map((name, power) => [1024 ** power, name])],
    ...["B/s", "FLOP", "FLOP/s", "OP/s", "MAC", "Hz"].map((unit) => [unit, decimal(unit)]),
    ["%", [[0.01, "%"]]],
    ["points", [[0.01, "points"]]],
    ["", [[1, "×"]]],
    ["1", [[1, ""]]],
  ]);
  const FRACTIONS = ["%", "points"];
  const scalesOf = (unit) => SCALES.get(unit) ?? [[1, unit]];

  /** The power of ten of the first digit; 0 for zero. */
  const magnitude = (value) => (value === 0 ? 0 : Number(value.toExponential(11).split("e")[1]));

  /** The value with its last digit at 10 ** place: the nearest, or by `Math.floor` or `Math.ceil`. */
  const rounded = (value, place, round = Math.round) => {
    const units = round(Number((place < 0 ? value * 10 ** -place : value / 10 ** place).toPrecision(12)));
    return place < 0 ? units / 10 ** -place : units * 10 ** place;
  };

  /** A value whose last digit is at 10 ** place, as text; as a power of ten if it is very small or large. */
  const written = (value, place) => {
    const first = magnitude(value);
    if (value !== 0 && (first < -4 || first >= 15)) {
      const raised = String(first).replace(/./g, (sign) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign] ?? "⁻");
      return `${written(value / 10 ** first, place - first)}${NO_BREAK}×${NO_BREAK}10${raised}`;
    }
    const decimals = Math.max(-place, 0);
    return value.toLocaleString("en", { minimumFractionDigits: decimals, maximumFractionDigits: decimals }).replace("-", "\u2212");
  };

  /** The end of an interval beside its value, rounded outwards; finer where it would become zero. */
  const end = (value, place, round) => {
    const units = rounded(value, place, round);
    return units !== 0 || value === 0 ? written(units, place) : written(rounded(value, magnitude(value), round), magnitude(value));
  };

  /** The end of an interval that stands without its value, rounded outwards to two digits. */
  const endAlone = (value, round) => {
    if (value === 0) return "0";
    const place = magnitude(value) - 1;
    const near = rounded(value, place, round);
    return written(near, rounded(near, place + 1) === near ? place + 1 : place);
  };

  /** The value as it is shown, and the place of its last digit. */
  const settled = (value, ends, digits) => {
    const placeFor = (near) => {
      const finest = near === 0 ? 0 : magnitude(near) - digits + 1;
      return ends && ends[1] > ends[0] ? Math.max(magnitude((ends[1] - ends[0]) / 4), finest) : finest;
    };
    const at = (place) => {
      const near = [Math.round, Math.floor, Math.ceil].map((round) => rounded(value, place, round));
      return [near.find((one) => !ends || (one >= ends[0] && one <= ends[1])) ?? near[0], place];
    };
    const [near, place] = at(placeFor(value));
    const carried = placeFor(near);
    return carried > place ? at(carried) : [near, place];
  };

  const fittingScale = (value, unit) => {
    const scales = scalesOf(unit);
    if (value === 0) return scales.findIndex(([factor]) => factor === 1 || scales.length === 1);
    return Math.max(scales.findLastIndex(([factor]) => Math.abs(value) >= factor), 0);
  };

  /**
   * A number in parts: `cell` as in a table, `beside` behind it, and `text` as in a sentence, all with the unit but
   * `beside`.
   */
  const formatted = (digits, symbol, low = "", high = "") => {
    const joiner = symbol === "" || symbol === "×" ? "" : NO_BREAK;
    const ends = low === high ? low : `${low} to ${high}`;
    const withUnit = (text) => `${text}${joiner}${symbol}`;
    return {
      cell: withUnit(digits || ends),
      beside: digits && low !== high ? `(${ends})` : "",
      text: withUnit(digits || `between ${low} and ${high}`),
    };
  };

  const inScale = (value, [factor]) => Number((value / factor).toPrecision(12));

  const oneValue = (value, unit, ends, digits) => {
    const scales = scalesOf(unit);
    const scaledBy = (scale) => settled(inScale(value, scale), ends?.map((one) => inScale(one, scale)), digits);
    const index = fittingScale(value, unit);
    const next = scales[index + 1];
    const scale = next && Math.abs(scaledBy(next)[0]) >= 1 ? next : scales[index];
    const [near, place] = scaledBy(scale);
    const text = written(near, place);
    if (!ends || ends[0] === ends[1]) return formatted(text, scale[1]);
    return formatted(text, scale[1], end(inScale(ends[0], scale), place, Math.floor), end(inScale(ends[1], scale), place, Math.ceil));
  };

  const twoEnds = ([low, high], unit) => {
    const scale = scalesOf(unit)[fittingScale(Math.max(Math.abs(low), Math.abs(high)), unit)];
    return formatted("", scale[1], endAlone(inScale(low, scale), Math.floor), endAlone(inScale(high, scale), Math.ceil));
  };

  /**
   * A value that this device entered, measured or computed, in the parts of `formatted`.
   * @param {number} value in base units.
   * @param {string} unit the base unit.
   * @param {number[]|null} ends of its interval; null where there is none.
   * @param {boolean} exact whether it was counted.
   */
  machines.formatNumber = (value, unit, ends = null, exact = false) => {
    if (ends) {
      const [low, high] = [Math.min(ends[0], value), Math.max(ends[1], value)];
      return high - low > Math.abs(value) ? twoEnds([low, high], unit) : oneValue(value, unit, [low, high], MOST_DIGITS);
    }
    if (!exact || !Number.isSafeInteger(value) || FRACTIONS.includes(unit)) return oneValue(value, unit, null, DIGITS_WITHOUT_INTERVAL);
    if (unit === "B" && Math.abs(value) >= 10240) return oneValue(value, unit, null, MOST_DIGITS);
    return formatted(written(value, 0), unit === "1" ? "" : unit);
  };

  /** Units in which a whole number that was computed is no count: it is as approximate as what it was computed from. */
  const COMPUTED = ["", "s", ...FRACTIONS];

  /** A record's number in the parts of `formatted`: the book's as the build wrote it. */
  machines.numberText = ({ value, unit, interval, kind, shown }) => {
    if (shown) return shown;
    const exact = kind === "counted" || (kind === "derived" && !COMPUTED.includes(unit));
    return machines.formatNumber(value, unit, interval && [interval.low, interval.high], exact);
  };

  const endsOf = (number) => {
    if (number.interval) return number.interval;
    return number.kind === "counted" ? { low: number.value, high: number.value } : null;
  };

  /**
   * One machine's number over another's, as {value, low, high}; null where a ratio says nothing, as without intervals.
   * The interval of the ratio is made of both by Zou and Donner's method on logarithms (2008, see the page).
   */
  machines.ratio = (above, below) => {
    if (above.unit !== below.unit || FRACTIONS.includes(above.unit)) return null;
    const [a, b] = [above.value, below.value];
    if (!(a > 0 && b > 0)) return null;
    const [forA, forB] = [endsOf(above), endsOf(below)];
    if (!forA || !forB || !(forA.low > 0 && forB.low > 0)) return null;
    const apart = (larger, smaller) => Math.max(Math.log(larger / smaller), 0);
    const down = Math.hypot(apart(a, forA.low), apart(forB.high, b));
    const up = Math.hypot(apart(forA.high, a), apart(b, forB.low));
    return { value: a / b, low: (a / b) * Math.exp(-down), high: (a / b) * Math.exp(up) };
  };

  machines.RATES = ["FLOP/s", "OP/s", "B/s"];
  /** A difference of two machines below which nobody acts; and one that is none. */
  const [MATTERS, NOTHING] = [0.05, 0.01];

  const isRate = (unit) => machines.RATES.includes(unit) || unit.endsWith("/s");

  /** A ratio of times or rates in words, as {said: "3.4 times as slow", beside: its interval}; null for other units. */
  machines.speed = ({ value, low, high }, unit) => {
    if (unit !== "s" && !isRate(unit)) return null;
    const [shown, ends] = value < 1 ? [1 / value, [1 / high, 1 / low]] : [value, [low, high]];
    const { cell, beside } = machines.formatNumber(shown, "", ends);
    return { said: `${cell.replace("×", "")} times as ${(unit === "s") === value > 1 ? "slow" : "fast"}`, beside };
  };

  /** What a ratio of numbers in `unit` leaves open, in words: null where its interval lies on one side of 1. */
  machines.reach = ({ low, high }, unit) => {
    if (low > 1 || high < 1) return null;
    const [down, up] = [1 - low, high - 1];
    const percent = (part) => `${Math.max(Math.ceil(part * 100 - 1e-9), 1).toLocaleString("en")}${NO_BREAK}%`;
    if (Math.max(down, up) <= MATTERS) return `no difference beyond ${percent(Math.max(down, up))}`;
    const ofRate = isRate(unit) ? ["slower", "faster"] : ["less", "more"];
    const [below, above] = unit === "s" ? ["faster", "slower"] : ofRate;
    if (down < NOTHING) return `up to ${percent(up)} ${above}, perhaps the same`;
    if (up < NOTHING) return `up to ${percent(down)} ${below}, perhaps the same`;
    return `between ${percent(down)} ${below} and ${percent(up)} ${above}`;
  };
}
