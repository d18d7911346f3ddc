// Runs a chapter's experiment on the reader's own device: as a page's script it asks and shows, as a worker it measures.
"use strict";

{
  const SAMPLES = 15;
  const SECONDS = 8; // for all samples of an experiment
  const SAMPLE = 20; // ms that a sample takes at least: browsers' clocks are coarse
  const LINE = 16; // 4-byte numbers in a cache line of 64 bytes

  // Statistics: those of the book ------------------------------------------------------------------------------------

  const sorted = (samples) => Float64Array.from(samples).sort();

  const median = (samples) => {
    const ordered = sorted(samples), middle = ordered.length >> 1;
    return ordered.length % 2 ? ordered[middle] : (ordered[middle - 1] + ordered[middle]) / 2;
  };

  /** The narrowest pair of ordered samples that holds the median in 95 of 100 cases; null below six samples. */
  const interval = (samples) => {
    const n = samples.length, ordered = sorted(samples);
    let outside = -1, chance = 2 ** (1 - n); // of all on one side
    for (let missed = chance; missed <= 0.05 && outside + 1 < n >> 1; missed += chance) {
      outside++;
      chance *= (n - outside) / (outside + 1);
    }
    return outside < 0 ? null : [ordered[outside], ordered[n - 1 - outside]];
  };

  // Work ---------------------------------------------------------------------------------------------------------------

  /** Addresses, a cache line apart, each of which holds the next; one walk visits all (Sattolo's algorithm). */
  const chain = (bytes) => {
    const lines = bytes / 4 / LINE, order = Uint32Array.from({ length: lines }, (_, line) => line), next = new Uint32Array(bytes / 4);
    for (let last = lines - 1; last > 0; last--) {
      const other = Math.floor(Math.random() * last);
      [order[last], order[other]] = [order[other], order[last]];
    }
    for (let line = 0; line < lines; line++) next[line * LINE] = order[line] * LINE;
    return next;
  };

  let kept = 0; // results, so that no compiler leaves the work out

  const walk = (next, steps) => {
    let at = 0;
    for (let step = 0; step < steps; step++) at = next[at];
    kept += at;
  };

  const threeLoops = (a, b, c, n) => {
    for (let i = 0; i < n; i++)
      for (let j = 0; j < n; j++) {
        let sum = 0;
        for (let k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
        c[i * n + j] = sum;
      }
  };

  /** Sixteen sums stay in registers while a row and a column pass: eight loads for sixteen products. */
  const tiled = (a, b, c, n) => {
    for (let i = 0; i < n; i += 4)
      for (let j = 0; j < n; j += 4) {
        let c00 = 0, c01 = 0, c02 = 0, c03 = 0, c10 = 0, c11 = 0, c12 = 0, c13 = 0;
        let c20 = 0, c21 = 0, c22 = 0, c23 = 0, c30 = 0, c31 = 0, c32 = 0, c33 = 0;
        for (let k = 0; k < n; k++) {
          const a0 = a[i * n + k], a1 = a[(i + 1) * n + k], a2 = a[(i + 2) * n + k], a3 = a[(i + 3) * n + k];
          const at = k * n + j, b0 = b[at], b1 = b[at + 1], b2 = b[at + 2], b3 = b[at + 3];
          c00 += a0 * b0; c01 += a0 * b1; c02 += a0 * b2; c03 += a0 * b3;
          c10 += a1 * b0; c11 += a1 * b1; c12 += a1 * b2; c13 += a1 * b3;
          c20 += a2 * b0; c21 += a2 * b1; c22 += a2 * b2; c23 += a2 * b3;
          c30 += a3 * b0; c31 += a3 * b1; c32 += a3 * b2; c33 += a3 * b3;
        }
        c.set([c00, c01, c02, c03], i * n + j);
        c.set([c10, c11, c12, c13], (i + 1) * n + j);
        c.set([c20, c21, c22, c23], (i + 2) * n + j);
        c.set([c30, c31, c32, c33], (i + 3) * n + j);
      }
  };

  const products = (n) => {
    const a = Float64Array.from({ length: n * n }, Math.random), b = a.slice().reverse(), c = new Float64Array(n * n);
    const times = (product) => (count) => { while (count--) product(a, b, c, n); };
    return [times(threeLoops), times(tiled)];
  };

  const named = (bytes) => (bytes < 2 ** 20 ? `${bytes / 2 ** 10} KiB` : `${bytes / 2 ** 20} MiB`);

  // An experiment: what is guessed, the rows [name, work of so many units], and which rows (of the last one) the ratio compares.
  const EXPERIMENTS = {
    memory: {
      guess: "On this device, how much slower is a load from 64 MiB than from 16 KiB? (2 means twice as slow)",
      unit: "ns per load", scale: 1e6, ratio: [12, 0],
      note: "Each load depends on the one before, and the lines of the array are visited in a random order.",
      rows: () => Array.from({ length: 13 }, (_, step) => 2 ** (14 + step)).map((bytes) => [named(bytes), () => { const next = chain(bytes); return (steps) => walk(next, steps); }, bytes]),
    },
    acceleration: {
      guess: "On this device, how much faster than three loops is a tile of 4 × 4 in registers? (2 means twice as fast)",
      unit: "ms per product", scale: 1, ratio: [0, 1],
      note: "The program multiplies two 192 × 192 matrices in double precision, on one core and without vectors.",
      rows: () => { const [loops, tile] = products(192); return [["three loops", () => loops], ["tile of 4 × 4", () => tile]]; },
    },
    noise: {
      guess: "This test times the same code under two names. What ratio of the medians will this device show?",
      unit: "ms per product", scale: 1, ratio: [0, 1],
      note: "Both names run the same product of two 64 × 64 matrices. In a fair comparison, the interval of the ratio contains 1.",
      rows: () => { const [, tile] = products(64); return [["the code", () => tile], ["the same code", () => tile]]; },
    },
  };

  // As a worker --------------------------------------------------------------------------------------------------------

  const timed = (work, units) => {
    const begin = performance.now();
    work(units);
    return performance.now() - begin;
  };

  const clockStep = () => {
    let least = Infinity;
    for (let reading = 0; reading < 20; reading++) {
      const begin = performance.now();
      let end = begin;
      while (end === begin) end = performance.now();
      least = Math.min(least, end - begin);
    }
    return least;
  };

  /** Measures all rows in turns, which begin with another row each time, until there are samples enough or the time is over. */
  const measure = (name) => {
    const { rows, scale } = EXPERIMENTS[name];
    const works = rows().map(([label, make, bytes]) => ({ label, bytes, work: make(), units: 1, samples: [] }));
    // Warms up, too; twice, as another program may have taken the time of one.
    for (const row of works) while (Math.min(timed(row.work, row.units), timed(row.work, row.units)) < SAMPLE) row.units *= 2;
    const begin = performance.now();
    let turn = 0;
    for (; turn < SAMPLES && (turn < 6 || performance.now() - begin < 1000 * SECONDS); turn++) {
      for (let place = 0; place < works.length; place++) {
        const row = works[(turn + place) % works.length];
        row.samples.push((timed(row.work, row.units) * scale) / row.units);
      }
      postMessage({ progress: (turn + 1) / SAMPLES });
    }
    postMessage({ clock: clockStep(), rows: works.map(({ label, bytes, samples }) => ({ label, bytes, samples })) });
  };

  // As a page's script ---------------------------------------------------------------------------------------------------

  const element = (name, content = [], properties = {}) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...[content].flat());
    return made;
  };

  const short = (value) => value.toLocaleString("en", { maximumSignificantDigits: 3, useGrouping: false });
  const span = ([low, high]) => `${short(low)} to ${short(high)}`;

  const table = ({ unit }, rows) => element("table", [
    element("thead", element("tr", ["What ran", `Median, ${unit}`, "95 % interval"].map((text) => element("th", text, { scope: "col" })))),
    element("tbody", rows.map(({ label, samples }) => element("tr", [
      element("th", label, { scope: "row" }),
      element("td", short(median(samples)), { className: "numeric" }),
      element("td", span(interval(samples)), { className: "numeric" }),
    ]))),
  ]);

  // The staircase: latency over the size of the array, on logarithmic axes, 480 units wide as the book's drawings.
  const WIDE = 480, HIGH = 330, LEFT = 66, RIGHT = 466, TOP = 62, BOTTOM = 278;

  const svg = (name, attributes, ...children) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [attribute, value] of Object.entries(attributes)) made.setAttribute(attribute, value);
    made.append(...children);
    return made;
  };

  /** Draws curves `{ name, look, points: [[bytes, ns]] }` below a title, and a guess of the last latency, if there is one. */
  const staircase = (title, curves, guessed) => {
    const all = curves.flatMap(({ points }) => points), steps = (value, base) => Math.log(value) / Math.log(base);
    const range = (values) => [Math.min(...values), Math.max(...values)];
    const [small, large] = range(all.map(([bytes]) => bytes)), [, slow] = range([...all.map(([, ns]) => ns), guessed ?? 0]);
    const [fast] = range(all.map(([, ns]) => ns)), low = fast / 1.4, high = slow * 1.4;
    const x = (bytes) => LEFT + ((RIGHT - LEFT) * steps(bytes / small, 2)) / steps(large / small, 2);
    const y = (ns) => BOTTOM - ((BOTTOM - TOP) * steps(ns / low, 10)) / steps(high / low, 10);
    const text = (at, up, said, anchor, look = {}) => svg("text", { x: at, y: up, "text-anchor": anchor, ...look }, said);
    const line = (d, look = {}) => svg("path", { d, ...look });
    const drawing = svg("svg", { class: "drawing", viewBox: `0 0 ${WIDE} ${HIGH}`, width: WIDE, height: HIGH, role: "img" });
    const said = curves.map(({ name, points }) => `${name}: from ${short(points[0][1])} ns at ${named(points[0][0])} to ${short(points.at(-1)[1])} ns at ${named(points.at(-1)[0])}`);
    drawing.setAttribute("aria-label", `${title}. ${said.join("; ")}.`);
    drawing.append(text(4, 20, title, "start", { "font-weight": 700 }), line(`M${LEFT} ${TOP}V${BOTTOM}H${RIGHT}`));
    for (let bytes = 2 ** 14; bytes <= large; bytes *= 16) if (bytes >= small) drawing.append(line(`M${x(bytes)} ${BOTTOM}v5`), text(x(bytes), BOTTOM + 20, named(bytes), "middle"));
    for (const ns of [0.1, 1, 10, 100, 1000]) if (ns >= low && ns <= high) drawing.append(line(`M${LEFT} ${y(ns)}h-5`), text(LEFT - 9, y(ns) + 5, `${ns} ns`, "end"));
    drawing.append(text((LEFT + RIGHT) / 2, HIGH - 10, "latency of one load over the size of the array", "middle"));
    if (guessed) drawing.append(line(`M${LEFT} ${y(guessed)}H${RIGHT}`, { "stroke-dasharray": "2 4" }), text(RIGHT, y(guessed) - 6, "your guess", "end"));
    curves.forEach(({ name, look, points }, place) => {
      const begin = LEFT + 210 * place;
      drawing.append(line(points.map(([bytes, ns], i) => `${i ? "L" : "M"}${x(bytes).toFixed(1)} ${y(ns).toFixed(1)}`).join(""), look));
      drawing.append(line(`M${begin} 41h26`, look), text(begin + 34, 46, name, "start"));
    });
    return drawing;
  };

  const bookCurve = (place) => place.dataset.book && { name: "the book’s machine", look: { class: "grey", "stroke-width": 2.5, "stroke-dasharray": "7 4" }, points: JSON.parse(place.dataset.book) };

  /** The reader's staircase over the book's, with a button that copies it. */
  const pictureOf = (place, rows, ratio, guess) => {
    const yours = { name: "this device", look: { class: "teal", "stroke-width": 3 }, points: rows.map(({ bytes, samples }) => [bytes, median(samples)]) };
    const title = `Memory is ${short(ratio)} times as slow as the first cache`;
    const drawing = staircase(title, [bookCurve(place), yours].filter(Boolean), guess * yours.points[0][1]);
    const copy = element("button", "Copy as a picture", { type: "button" });
    copy.addEventListener("click", async () => { copy.textContent = `The picture was ${await figures.copyPicture(drawing, "staircase")}`; });
    return element("figure", [drawing, copy]);
  };

  /** What an experiment found, in words, and what shows it. */
  const resultOf = (place, { rows, clock }, guess, hidden) => {
    const experiment = EXPERIMENTS[place.dataset.experiment], [above, below] = experiment.ratio.map((at) => rows[at].samples);
    const ratios = above.map((one, turn) => one / below[turn]); // of the same turn
    const samples = { device: navigator.userAgent, unit: experiment.unit, clock_ms: clock, rows };
    const [low, high] = interval(ratios), found = `his device shows ${short(median(ratios))}× (${span([low, high])}).`;
    const words = [
      guess ? `You guessed ${guess}; t${found}` : `T${found}`,
      high > 2 * low ? " This device was busy or changed its speed. Close other programs and measure again." : "",
      hidden ? " This tab was in the background during the measurement. Measure again." : "",
    ].join("");
    const details = element("details", [
      element("summary", "All numbers"),
      element("div", table(experiment, rows), { className: "measured-table" }),
      element("p", `${experiment.note} The clock has steps of ${short(clock)} ms, so each sample takes at least ${SAMPLE} ms. In a browser the clock is coarse, this program uses no vectors, and a tab in the background runs more slowly.`),
      element("p", element("a", "Download the samples", { download: "device.json", href: `data:application/json,${encodeURIComponent(JSON.stringify(samples))}` })),
    ]);
    return { words, shown: rows[0].bytes ? [pictureOf(place, rows, median(ratios), Number(guess)), details] : [details] };
  };

  const offer = (place) => {
    const name = place.dataset.experiment, experiment = EXPERIMENTS[name];
    const guess = element("input", [], { type: "number", step: "any", min: "0", placeholder: "your guess", id: `device-${name}` });
    const start = element("button", "Measure this device", { type: "submit" });
    const stop = element("button", "Stop", { type: "button", hidden: true });
    const progress = element("progress", [], { hidden: true, ariaLabel: "Progress" });
    const said = element("p", [], { role: "status" }), shown = element("div");
    const form = element("form", [element("label", experiment.guess, { htmlFor: guess.id }), guess, start, stop, progress]);
    const book = bookCurve(place);
    if (book) shown.append(element("figure", staircase("Latency of one load", [book])));
    let worker = null, hidden = false;
    const end = (text) => {
      worker?.terminate();
      worker = null;
      start.disabled = false;
      stop.hidden = progress.hidden = true;
      said.textContent = text;
    };
    document.addEventListener("visibilitychange", () => { hidden ||= document.hidden; });
    stop.addEventListener("click", () => end("Stopped. Nothing was saved."));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      hidden = false;
      try {
        worker = new Worker(SCRIPT);
      } catch {
        end("This page was opened from a folder, where a browser cannot measure. Run make serve and open the page from there.");
        return;
      }
      worker.addEventListener("error", () => end("This browser could not start the measurement. Run make serve and open the page from there."));
      worker.addEventListener("message", ({ data }) => {
        progress.value = data.progress ?? 1;
        if (!data.rows) return;
        const result = resultOf(place, data, guess.value, hidden);
        end(result.words);
        shown.replaceChildren(...result.shown);
      });
      progress.removeAttribute("value");
      start.disabled = true;
      stop.hidden = progress.hidden = false;
      said.textContent = "Measuring. This takes at most about 10 seconds.";
      worker.postMessage(name);
    });
    place.append(element("p", "On your own device", { className: "device-title" }), form, said, shown);
  };

  const SCRIPT = globalThis.document?.currentScript.src;
  if (SCRIPT) document.addEventListener("DOMContentLoaded", () => document.querySelectorAll(".device").forEach(offer));
  else addEventListener("message", ({ data }) => measure(data));
  globalThis.device = { median, interval, chain, products, tiled, threeLoops };
}
