// Numbers as the book shows them (the rules are those of tinytorch/report/numbers.py), and the ratio of two machines.
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

  // Fractions of whole numbers, {top, bottom}: a float stands for a number of twelve digits, so that 0.1 + 0.2 is three tenths.

  const power = (place) => 10n ** BigInt(place);
  const fraction = (units, place) => (place < 0 ? { top: units, bottom: power(-place) } : { top: units * power(place), bottom: 1n });
  const exactly = (digits) => {
    const [, sign, whole, part = "", exponent = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(digits);
    return fraction(BigInt(sign + whole + part), Number(exponent) - part.length);
  };
  const over = (a, b) => ({ top: a.top * b.bottom, bottom: a.bottom * b.top });
  const minus = (a, b) => ({ top: a.top * b.bottom - b.top * a.bottom, bottom: a.bottom * b.bottom });
  const isBelow = (a, b) => minus(a, b).top < 0n;
  const size = (units) => (units < 0n ? -units : units);

  /** The power of ten of the first digit; 0 for zero. */
  const magnitude = ({ top, bottom }) => {
    if (top === 0n) return 0;
    const most = String(size(top)).length - String(bottom).length;
    return isBelow({ top: size(top), bottom }, fraction(1n, most)) ? most - 1 : most;
  };

  /** How many times 10 ** place it is, as a whole number: the "nearest" (of two the even one), or that "below" or "above". */
  const rounded = (value, place, which = "nearest") => {
    const { top, bottom } = over(value, fraction(1n, place));
    const below = top / bottom - (top % bottom < 0n ? 1n : 0n);
    const rest = top - below * bottom;
    if (rest === 0n || which === "below") return below;
    if (which === "above") return below + 1n;
    return 2n * rest > bottom || (2n * rest === bottom && below % 2n !== 0n) ? below + 1n : below;
  };

  /** Units of 10 ** place with comma groups and a true minus; as a power of ten if very small or large. */
  const written = (units, place) => {
    const digits = String(size(units));
    const first = digits.length - 1 + place;
    if (units !== 0n && (first < -4 || first >= 15)) {
      const raised = String(first).replace(/./g, (sign) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign] ?? "⁻");
      return `${written(units, place - first)}${NO_BREAK}×${NO_BREAK}10${raised}`;
    }
    const decimals = Math.max(-place, 0);
    const all = (digits + "0".repeat(Math.max(place, 0))).padStart(decimals + 1, "0");
    const whole = all.slice(0, all.length - decimals).replace(/\B(?=(\d{3})+$)/g, ",");
    return `${units < 0n ? "\u2212" : ""}${whole}${decimals ? `.${all.slice(-decimals)}` : ""}`;
  };

  /** The end of an interval beside its value, rounded outwards; finer where it would become zero. */
  const end = (value, place, which) => {
    const units = rounded(value, place, which);
    if (units !== 0n || value.top === 0n) return written(units, place);
    return written(rounded(value, magnitude(value), which), magnitude(value));
  };

  /** The end of an interval that stands without its value, rounded outwards to two digits. */
  const endAlone = (value, which) => {
    if (value.top === 0n) return "0";
    const place = magnitude(value) - 1;
    const units = rounded(value, place, which);
    return units % 10n === 0n ? written(units / 10n, place + 1) : written(units, place);
  };

  /** The value as it is shown: [units, place]. */
  const settled = (value, ends, digits) => {
    const placeFor = (near) => {
      if (!ends) return near.top === 0n ? 0 : magnitude(near) - digits + 1;
      const finest = near.top === 0n ? 0 : magnitude(near) - MOST_DIGITS + 1;
      const { top, bottom } = minus(ends[1], ends[0]);
      return top === 0n ? finest : Math.max(magnitude({ top, bottom: 4n * bottom }), finest);
    };
    const at = (place) => {
      const near = ["nearest", "below", "above"].map((which) => rounded(value, place, which));
      const isInside = (units) => !ends || !(isBelow(fraction(units, place), ends[0]) || isBelow(ends[1], fraction(units, place)));
      return [near.find(isInside) ?? near[0], place];
    };
    const [units, place] = at(placeFor(value));
    const carried = placeFor(fraction(units, place));
    return carried > place ? at(carried) : [units, place];
  };

  const fittingScale = (value, unit) => {
    const scales = scalesOf(unit);
    if (value === 0) return scales.findIndex(([factor]) => factor === 1 || scales.length === 1);
    return Math.max(scales.findLastIndex(([factor]) => Math.abs(value) >= factor), 0);
  };

  /**
   * A number in parts: `cell` as in a table, `beside` behind it, `text` as in a sentence, and `interval`, all with the
   * unit but `beside`.
   */
  const formatted = (digits, symbol, low = "", high = "") => {
    const joiner = symbol === "" || symbol === "×" ? "" : NO_BREAK;
    const ends = low === high ? low : `${low} to ${high}`;
    const withUnit = (text) => `${text}${joiner}${symbol}`;
    return {
      cell: withUnit(digits || ends),
      beside: digits && low !== high ? `(${ends})` : "",
      text: withUnit(digits || `between ${low} and ${high}`),
      interval: ends ? withUnit(ends) : "",
    };
  };

  const inScale = (value, [factor]) => over(exactly(value.toPrecision(12)), exactly(String(factor)));

  const oneValue = (value, unit, ends, digits) => {
    const scales = scalesOf(unit);
    const scaledBy = (scale) => settled(inScale(value, scale), ends?.map((one) => inScale(one, scale)), digits);
    const index = fittingScale(value, unit);
    const next = scales[index + 1];
    const isCarried = next && !isBelow(fraction(size(scaledBy(next)[0]), scaledBy(next)[1]), fraction(1n, 0));
    const scale = isCarried ? next : scales[index];
    const [units, place] = scaledBy(scale);
    const text = written(units, place);
    if (!ends) return formatted(text, scale[1]);
    if (ends[0] === ends[1]) return formatted(text, scale[1], text, text);
    return formatted(text, scale[1], end(inScale(ends[0], scale), place, "below"), end(inScale(ends[1], scale), place, "above"));
  };

  const twoEnds = ([low, high], unit) => {
    const scale = scalesOf(unit)[fittingScale(Math.max(Math.abs(low), Math.abs(high)), unit)];
    return formatted("", scale[1], endAlone(inScale(low, scale), "below"), endAlone(inScale(high, scale), "above"));
  };

  /**
   * A value as the book shows it, in the parts of `formatted`.
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
    return formatted(written(BigInt(value), 0), unit === "1" ? "" : unit);
  };

  /** Units in which a whole number that was computed is no count: it is as approximate as what it was computed from. */
  const COMPUTED = ["", "s", ...FRACTIONS];

  /** A record's number as the book shows it, in the parts of `formatted`. */
  machines.numberText = ({ value, unit, interval, kind }) => {
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
