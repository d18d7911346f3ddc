// Numbers as the book shows them (the rules are those of tinytorch/report/numbers.py), and the ratio of two machines.
"use strict";

globalThis.machines ??= {};

{
  const NO_BREAK = "\u00a0";
  const MOST_DIGITS = 4;
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

  /** The power of ten of the first significant digit; 0 for zero. */
  const magnitude = (value) => (value ? Number(value.toExponential().split("e")[1]) : 0);

  const toDecimals = (value, decimals) => {
    if (decimals >= 0) return Number(value.toFixed(Math.min(decimals, 100)));
    const step = 10 ** -decimals;
    return Math.round(value / step) * step;
  };

  const decimalsOf = (value, half, digits) => {
    if (half === null) return value ? digits - 1 - magnitude(value) : 0;
    if (half === 0) return value ? MOST_DIGITS - 1 - magnitude(value) : 0;
    const uncertain = -Math.floor(Math.log10(half));
    if (!value) return uncertain;
    const fewest = Math.min(1 - magnitude(value), uncertain + 1);
    return Math.min(Math.max(uncertain, fewest), MOST_DIGITS - 1 - magnitude(value));
  };

  /** The rounded value and its decimals, settled where rounding carries into a new digit. */
  const rounded = (value, half, digits) => {
    const decimals = decimalsOf(value, half, digits);
    const first = toDecimals(value, decimals);
    const settled = first ? decimalsOf(first, half, digits) : decimals;
    return settled < decimals ? [toDecimals(first, settled), settled] : [first, decimals];
  };

  const written = (value, decimals) => {
    const [whole, part] = Math.abs(value).toFixed(Math.min(Math.max(decimals, 0), 100)).split(".");
    const text = whole.replace(/\B(?=(\d{3})+$)/g, ",") + (part ? `.${part}` : "");
    return value < 0 ? `\u2212${text}` : text;
  };

  const digitsText = (value, decimals) => {
    const size = Math.abs(value);
    if (!size || (size >= 1e-4 && size < 1e15)) return written(value, decimals);
    const power = magnitude(value);
    const raised = String(power).replace(/./g, (sign) => "⁰¹²³⁴⁵⁶⁷⁸⁹"[sign] ?? "⁻");
    const mantissa = Number(value.toExponential().split("e")[0]);
    return `${written(mantissa, Math.max(decimals + power, 0))}${NO_BREAK}×${NO_BREAK}10${raised}`;
  };

  const fittingScale = (value, unit) => {
    const scales = scalesOf(unit);
    if (value === 0) return scales.findIndex(([factor]) => factor === 1 || scales.length === 1);
    return Math.max(scales.findLastIndex(([factor]) => Math.abs(value) >= factor), 0);
  };

  const shown = (digits, symbol, factor, decimals) => {
    const joiner = symbol === "" || symbol === "×" ? "" : NO_BREAK;
    return { digits, unit: symbol, factor, decimals, text: `${digits}${joiner}${symbol}`, joiner };
  };

  /**
   * A value as the book shows it.
   * @param {number} value in base units.
   * @param {string} unit the base unit.
   * @param {number|null} half half of the interval's width; null where there is none.
   * @param {boolean} exact whether it was counted.
   */
  machines.formatNumber = (value, unit, half = null, exact = false) => {
    let digits = 3;
    if (exact && half === null && Number.isSafeInteger(value) && !FRACTIONS.includes(unit)) {
      if (unit !== "B" || Math.abs(value) < 10240) return shown(written(value, 0), unit === "1" ? "" : unit, 1, 0);
      digits = MOST_DIGITS;
    }
    const scales = scalesOf(unit);
    let index = fittingScale(value, unit);
    const inScale = ([factor]) => rounded(value / factor, half === null ? null : half / factor, digits);
    if (index + 1 < scales.length && Math.abs(inScale(scales[index + 1])[0]) >= 1) index += 1;
    const [number, decimals] = inScale(scales[index]);
    return shown(digitsText(number, decimals), scales[index][1], scales[index][0], decimals);
  };

  /** Both ends in the unit of `like`, with digits enough to tell them apart. */
  machines.formatInterval = (low, high, like) => {
    const ends = [low / like.factor, high / like.factor];
    let decimals = like.decimals;
    const same = () => new Set(ends.map((end) => toDecimals(end, decimals))).size === 1;
    while (low < high && decimals < like.decimals + 6 && same()) decimals += 1;
    const texts = ends.map((end) => digitsText(toDecimals(end, decimals), decimals));
    return `${texts[0]} to ${texts[1]}${like.joiner}${like.unit}`;
  };

  /** A record's number as {text, interval}; interval is "" where it has none. */
  machines.numberText = (number) => {
    const { interval } = number;
    const half = interval ? (interval.high - interval.low) / 2 : null;
    const like = machines.formatNumber(number.value, number.unit, half, number.kind === "counted");
    return { text: like.text, interval: interval ? machines.formatInterval(interval.low, interval.high, like) : "" };
  };

  const ends = (number) => {
    if (number.interval) return number.interval;
    return number.kind === "measured" ? null : { low: number.value, high: number.value };
  };

  /**
   * One machine's number over another's, as {value, low, high}; null where a ratio says nothing.
   * The interval of the ratio is made of both by Zou and Donner's method on logarithms (2008, see the page);
   * low and high are null where one of the two was measured once and so has no interval.
   */
  machines.ratio = (above, below) => {
    if (above.unit !== below.unit || FRACTIONS.includes(above.unit)) return null;
    const [a, b] = [above.value, below.value];
    if (!(a > 0 && b > 0)) return null;
    const [forA, forB] = [ends(above), ends(below)];
    if (!forA || !forB || !(forA.low > 0 && forB.low > 0)) return { value: a / b, low: null, high: null };
    const apart = (larger, smaller) => Math.max(Math.log(larger / smaller), 0);
    const down = Math.hypot(apart(a, forA.low), apart(forB.high, b));
    const up = Math.hypot(apart(forA.high, a), apart(b, forB.low));
    return { value: a / b, low: (a / b) * Math.exp(-down), high: (a / b) * Math.exp(up) };
  };
}
