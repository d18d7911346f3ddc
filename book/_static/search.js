// Searches the text of all sections, which search-index.js holds: over http and from a folder alike, with excerpts.
"use strict";

{
  const MOST = 20; // results that are shown
  const LETTERS = 240; // of an excerpt
  const COMMON = 30; // sections with a word
  const PATIENCE = 8; // milliseconds of work, after which the browser may draw

  /** Words that are written in several ways, as the search compares them. */
  const WRITTEN = [
    [/\b(all|reduce)[- ]?(reduce|gather|scatter)\b/g, "$1$2"], [/\ball[- ]?to[- ]?all\b/g, "alltoall"], [/\bout[- ]of[- ]([cg]\w+ )?memory\b|\boom\b/g, "outofmemory memory"],
    [/\b(tok|tokens?) ?\/ ?s(ec(ond)?)?\b/g, "tokens per second"], [/\bbfloat16\b/g, "bf16"], [/\bfloat(8|16|32|64)\b/g, "fp$1"], [/\bint ?-?(4|8)\b/g, "int$1"],
    [/\b(8|eight)[- ]bits?\b/g, "int8"], [/\b(4|four)[- ]bits?\b/g, "int4"], [/\b(warm|speed|start)[- ]ups?\b/g, "$1up"], [/\bflop(s|\/s)?\b/g, "flop"],
    [/\bk[/ ]?v[- ]?cach/g, "kv cach"], [/\b(pre|re|multi|de|non|un)-(?=\w)/g, "$1"], [/\blicence/g, "license"],
  ];
  /** Letters alone: small, without accents, ligatures as their letters. */
  const plain = (text) => WRITTEN.reduce((so, [pattern, other]) => so.replace(pattern, other), text.toLowerCase().normalize("NFKD").replace(/\p{M}/gu, ""));
  const ENDING = /^(.{3,}?)(?:at(?:e[ds]?|ing|ions?|ors?)|ions?|ments?|ness|it(?:y|ies)|isms?|ings?|e?rs?|ed|ies|es|e|y|(?<!s)s)$/;
  const ROOTS = new Map();
  /** What a word begins with, in whatever form: quantization, quantized and quantise are one. */
  const rootOf = (word) => {
    if (!ROOTS.has(word)) {
      const american = word.replace(/is(e[ds]?|er|ing|ations?)$/, "iz$1");
      ROOTS.set(word, american.replace(ENDING, "$1"));
    }
    return ROOTS.get(word);
  };
  const wordsOf = (text) => plain(text).match(/[\p{L}\p{N}_]+/gu) ?? [];
  const rootsOf = (text) => wordsOf(text).map(rootOf);

  /** Words that say nothing of what is looked for, unless nothing else is asked. */
  const STOP = new Set(("a about actually all also am an and any are as at be because been best better between book but by can cannot could did difference do does doing don else for from get gets give go good had "
    + "happens has have how i if in instead into is isn it its keep kind know like look make makes making many may me mean means mine more most much must my need needs no not of off on one only or our out over "
    + "per percent please really s should show so some still such t take takes tell than that the their them then there these thing things they this those through to too try up us use used useful using versus very vs want was we "
    + "were what when where whether which while who why will with worth without work works would you your").split(" "));
  /** What the book calls by other words. */
  const ALIKE = Object.fromEntries(Object.entries({
    accelerate: "faster", avx: "vector", avx2: "vector", avx512: "vector", computer: "machine cpu", concurrency: "load requests", cost: "time", cpu: "core", crash: "fault lost", cuda: "gpu accelerator", ddp: "data parallel", engine: "runtime",
    faster: "acceleration speedup", failure: "lost", flaky: "noise", fluctuate: "noise differ", fp16: "format bf16", bf16: "format fp16", fp8: "format", fsdp: "sharded data parallel", gemm: "product", gguf: "int4 block", gptq: "rounding", gpu: "accelerator",
    gqa: "grouped", hbm: "bandwidth memory", inference: "forward serving", int4: "bits quantization", int8: "bits quantization", jitter: "noise", kernel: "compiled", laptop: "machine", latency: "time", llm: "gpt language",
    lora: "rank", matmul: "product", mfu: "utilization peak", multiplication: "product", nanosecond: "time latency", numa: "memory socket", optimize: "faster", p99: "tail percentile", percentile: "tail", quantize: "quantization",
    ram: "memory", reduce: "smaller", reproducible: "noise repeat", significant: "interval", shrink: "smaller", simd: "vector", slow: "fast", slower: "faster", speed: "fast", svd: "rank factorization", throughput: "second rate", tiling: "tile",
    timeit: "timing measure", timing: "time", torch: "pytorch", tpu: "accelerator", ttft: "token first", variance: "noise", vary: "noise differ", vram: "memory",
  }).map(([word, others]) => [rootOf(word), others.split(" ").map(rootOf)]));
  const NAMES = { term: "Glossary", claim: "Claim" };
  const WEIGHTS = { chapter: 2, term: 2, claim: 0.7, tool: 0.6, end: 0.6, list: 0.4 };

  /** What a section is: a word of the glossary, a claim, part of a chapter or of its end, a tool, or of a page that lists. */
  const kindOf = (title, address, anchor) => {
    if (anchor.startsWith("term-")) return "term";
    if (anchor.startsWith("ledger-")) return "claim";
    if (/^\d+\. /.test(title)) return /^(questions|exercises|further-reading|what-comes-next|what-the-course|the-same-in)/.test(anchor) ? "end" : "chapter";
    return address.startsWith("reference/") ? "tool" : "list";
  };

  const countsOf = (text) => {
    const counts = new Map();
    for (const root of rootsOf(text)) counts.set(root, (counts.get(root) ?? 0) + 1);
    return counts;
  };

  const INDEX = document.currentScript.dataset.index;
  const sections = [];
  let usual = 0; // letters of a section
  const vocabulary = new Map(); // of each root a word that has it, and how many sections do
  let questions = []; // that readers ask, and the sections that answer them
  let loading = null;

  /** Counts the words of all sections, a few at a time. */
  const countWords = async () => {
    let begin = performance.now();
    for (const [title, address, parts] of globalThis.searchIndex)
      for (const [anchor, heading, text] of parts) {
        const section = { title, address, anchor, heading, text, words: countsOf(text), named: countsOf(heading), asked: new Map(), kind: kindOf(title, address, anchor), length: text.length + 1 };
        sections.push(section);
        for (const root of new Set([...section.words.keys(), ...section.named.keys()])) vocabulary.set(root, (vocabulary.get(root) ?? 0) + 1);
        if (performance.now() - begin < PATIENCE) continue;
        await new Promise((resolve) => setTimeout(resolve));
        begin = performance.now();
      }
    usual = sections.reduce((sum, { length }) => sum + length, 0) / sections.length;
    const places = new Map(sections.map((section) => [`${section.address}#${section.anchor}`, section]));
    questions = globalThis.searchQuestions.flatMap(([asked, address]) => asked.split(",").map((one) => ({ roots: telling(wordsOf(one)).map(rootOf), section: places.get(address) })));
    for (const { roots, section } of questions)
      for (const root of roots) {
        section.asked.set(root, 1);
        if (!vocabulary.has(root)) vocabulary.set(root, 1);
      }
  };

  /** The words of a question that say what is looked for. */
  const telling = (words) => {
    const some = words.filter((word) => !STOP.has(word));
    return [...new Set(some.length ? some : words)];
  };

  /** Brings the index, which is larger than any page, when there is something to look for. */
  const prepare = () => loading ??= new Promise((resolve, reject) => {
    const script = element("script", [], { src: INDEX });
    script.addEventListener("load", () => resolve(countWords()));
    script.addEventListener("error", () => {
      loading = null;
      reject(new Error(`${INDEX} cannot be loaded`));
    });
    document.head.append(script);
  });

  /** How many letters have to be changed, left out or put in to make one word of the other; more than `most` is `most` + 1. */
  const distance = (one, other, most) => {
    if (Math.abs(one.length - other.length) > most) return most + 1;
    let before = Array.from({ length: other.length + 1 }, (_, place) => place);
    for (let row = 1; row <= one.length; row++) {
      const line = [row];
      for (let column = 1; column <= other.length; column++)
        line.push(Math.min(before[column] + 1, line[column - 1] + 1, before[column - 1] + (one[row - 1] !== other[column - 1])));
      if (Math.min(...line) > most) return most + 1;
      before = line;
    }
    return before.at(-1);
  };

  /** The root in the book that is nearest to one that it does not have; null if none is near. A short one is near to too much. */
  const nearest = (root) => {
    const most = root.length < 5 ? 0 : root.length < 7 ? 1 : 2;
    let found = null;
    let least = most + 1;
    for (const other of vocabulary.keys()) {
      const far = distance(root, other, most);
      if (far < least) [found, least] = [other, far];
    }
    return found;
  };

  /** The two words of the book that somebody wrote as one, such as hugepages; null if there are none. */
  const splits = (word) => {
    for (let at = 3; at <= word.length - 3; at++) {
      const parts = [word.slice(0, at), word.slice(at)].map(rootOf);
      if (parts.every((part) => vocabulary.has(part))) return parts;
    }
    return null;
  };

  /** How much each root of the book is what was typed: the root itself, what the book calls it, or what begins with it. */
  const meant = (root) => {
    const likes = new Map([[root, 1], ...(ALIKE[root] ?? []).map((other) => [other, 0.4])]);
    if (root.length > 2 && !vocabulary.has(root))
      for (const other of vocabulary.keys()) if (other.startsWith(root) && !likes.has(other)) likes.set(other, 0.5);
    return [...likes];
  };

  /** How much a word says that so many sections have; one that hardly any has says no more than one that a chapter is about. */
  const rarity = (count) => Math.log(1 + sections.length / Math.max(COMMON, 1 + count));

  /** How alike a question of the list is to what is asked, from 0 to 1: the share that they have in common, rare words first. */
  const likeness = (roots, asked) => {
    const weigh = (some) => some.reduce((sum, root) => sum + rarity(vocabulary.get(root) ?? 0), 0);
    const both = asked.filter((root) => roots.includes(root));
    return both.length > 1 || asked.length === roots.length ? weigh(both) / Math.sqrt(weigh(roots) * weigh(asked) || 1) : 0;
  };

  /** The sections that hold most of the words, the best first: rare words count most, and so do headings and questions of the list. */
  const found = (asked) => {
    const amounts = asked.map((root) => {
      const likes = meant(root);
      const within = (counts) => likes.reduce((sum, [other, like]) => sum + like * (counts.get(other) ?? 0), 0);
      const scores = sections.map(({ words: counts, named, asked: answers, length }) => {
        const often = within(counts);
        return often / (often + 0.5 + length / usual) + 1.5 * Math.min(1, within(named)) + Math.min(1, within(answers));
      });
      const rare = rarity(scores.filter(Boolean).length) * (/^\d/.test(root) ? 0.3 : 1);
      return scores.map((score) => [rare * score, score && rare]);
    });
    const answers = new Map();
    for (const { roots, section } of questions) answers.set(section, Math.max(answers.get(section) ?? 0, likeness(roots, asked)));
    const all = amounts.reduce((sum, scores) => sum + Math.max(...scores.map(([, rare]) => rare)), 0);
    const scored = sections
      .map((section, place) => {
        const scores = amounts.map((amount) => amount[place]);
        const share = scores.reduce((sum, [, rare]) => sum + rare, 0) / all;
        const names = [...section.named.keys()];
        const defined = ["term", "tool"].includes(section.kind) && names.every((name) => asked.includes(name));
        const score = scores.reduce((sum, [one]) => sum + one, 0) * share ** 2 * WEIGHTS[section.kind] * (defined ? (names.length >= asked.length ? 5 : names.length > 1 ? 3 : 1.5) : 1);
        const answer = answers.get(section) ?? 0;
        return { section, score: score + 80 * answer ** 4, share: Math.max(share, answer) };
      })
      .filter(({ score }) => score > 0)
      .sort((one, other) => other.score - one.score);
    const most = scored.filter(({ share }) => share > 0.4);
    return most.length ? most : scored;
  };

  const element = (name, content, properties = {}) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...[content].flat());
    return made;
  };

  /** Text with the words that were asked for marked. */
  const marked = (text, roots) => text.split(/([\p{L}\p{N}_]+)/u).map((part) =>
    part && roots.includes(rootOf(plain(part))) ? element("mark", part) : part);

  /** The sentences of a section that hold most of what was asked, with the numbers that stand there. */
  const excerpt = ({ text }, roots) => {
    const starts = [0, ...[...text.matchAll(/[.?!:] (?=\p{Lu})/gu)].map(({ index }) => index + 2)];
    const windows = starts.map((start) => text.slice(start, start + LETTERS));
    const scores = windows.map((part) => new Set(rootsOf(part).filter((root) => roots.includes(root))).size + (/\d/.test(part) ? 0.5 : 0));
    const start = starts[scores.indexOf(Math.max(...scores))];
    const end = start + LETTERS >= text.length ? text.length : text.lastIndexOf(" ", start + LETTERS);
    return marked(`${start ? "… " : ""}${text.slice(start, end)}${end < text.length ? " …" : ""}`, roots);
  };

  const item = (section, words, roots) => {
    const address = `${section.address}?highlight=${encodeURIComponent(words.join(" "))}${section.anchor ? `#${section.anchor}` : ""}`;
    const where = section.heading === section.title.replace(/^\d+\. /, "") ? [] : [element("span", NAMES[section.kind] ?? section.title, { className: "result-page" })];
    return element("li", [
      element("a", marked(section.heading, roots), { href: address }), " ", ...where,
      element("p", excerpt(section, roots), { className: "context" }),
    ]);
  };

  let latest = "";

  const search = async (query) => {
    latest = query;
    const results = document.getElementById("search-results");
    const said = document.getElementById("search-progress");
    const asked = telling(wordsOf(query));
    if (asked.length) {
      try {
        await prepare();
      } catch (error) {
        said.textContent = `${error.message}: without it nothing can be found.`;
        return;
      }
      if (latest !== query) return;
    }
    results.replaceChildren();
    if (!asked.length) {
      said.textContent = query.trim() && `The search finds words and numbers; “${query.trim()}” has none. Type the word for it.`;
      return;
    }
    const changed = [];
    const roots = [...new Set(asked.flatMap((word) => {
      const root = rootOf(word);
      if (ALIKE[root] || [...vocabulary.keys()].some((other) => other.startsWith(root))) return root;
      const parts = splits(word);
      if (parts) return parts;
      const near = nearest(root);
      if (near) changed.push(`“${near}…” instead of “${word}”`);
      return near ?? root;
    }))];
    const all = found(roots);
    const count = all.length === 1 ? "One section" : all.length > MOST ? `The best ${MOST} of ${all.length} sections` : `${all.length} sections`;
    const instead = changed.length ? `, with ${changed.join(" and ")}, which the book does not have` : "";
    if (!all.length) {
      said.textContent = roots.length > 1 ? "No section has most of these words." : `Nothing in the book has “${asked[0]}”.`;
      results.append(element("p", [
        "Try fewer words, or the beginning of one; or look for the idea in the ",
        element("a", "glossary", { href: "glossary.html" }), " or among the ", element("a", "figures and tables", { href: "lists.html" }), ".",
      ]));
      return;
    }
    said.textContent = `${count}${instead}:`;
    results.append(element("ul", all.slice(0, MOST).map(({ section }) => item(section, asked, roots)), { className: "search" }));
  };

  document.addEventListener("DOMContentLoaded", () => {
    const field = document.getElementById("search-words");
    field.value = new URLSearchParams(location.search).get("q") ?? "";
    search(field.value);
    let timer = 0;
    field.addEventListener("focus", () => prepare().catch(() => {})); // the search itself says what failed
    field.addEventListener("input", () => {
      clearTimeout(timer);
      timer = setTimeout(() => search(field.value), 150);
    });
    field.form.addEventListener("submit", (event) => {
      event.preventDefault();
      clearTimeout(timer);
      search(field.value);
      try {
        history.replaceState(null, "", `?q=${encodeURIComponent(field.value)}`);
      } catch {
        // From a folder a page may not change its address.
      }
    });
  });
}
