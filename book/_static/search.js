// Searches the text of all sections, which search-index.js holds: over http and from a folder alike, with excerpts.
"use strict";

{
  const MOST = 40; // results that are shown
  const AROUND = 110; // letters of an excerpt to each side of what was found

  /** A word as it is compared: small, without accents, ligatures as their letters, -ise as -ize. */
  const folded = (word) => word.toLowerCase().normalize("NFKD").replace(/\p{M}/gu, "").replace(/is(e[ds]?|er|ing|ations?)$/, "iz$1");
  const wordsOf = (text) => (text.match(/[\p{L}\p{N}_]+/gu) ?? []).map(folded);

  /** Words that say nothing of what is looked for, unless nothing else is asked. */
  const STOP = new Set(("a about an and any are as at be been best better book by can could did do does doing for from get give good had has have how i if in "
    + "into is it its keep kind know like look make many me mean means more most much must my need no not of on one or our out please s should so some t take takes tell than "
    + "that the their them then there these they this those to too up us use very want was we were what when where which while who why will with would you your").split(" "));
  /** What the book calls by other words. */
  const ALIKE = {
    accelerate: "faster", avx: "vector", avx2: "vector", avx512: "vector", bf16: "format", faster: "acceleration", flaky: "noise", float16: "format", fp16: "format", gemm: "product",
    gpu: "accelerator", gqa: "grouped", int4: "four bits", int8: "eight bits quantization", llm: "gpt language", matmul: "product", multiplication: "product", optimize: "faster",
    quantize: "quantization", ram: "memory", simd: "vector", slow: "fast", slower: "faster", speed: "fast", tiling: "tile", timings: "times", tokens: "token",
  };
  const NAMES = { term: "Glossary", claim: "Claim" };
  const WEIGHTS = { chapter: 2, term: 2, claim: 0.8, tool: 1, end: 0.8, list: 0.4 };

  const countsOf = (text) => {
    const counts = new Map();
    for (const word of wordsOf(text)) counts.set(word, (counts.get(word) ?? 0) + 1);
    return counts;
  };

  /** What a section is: a word of the glossary, a claim, part of a chapter or of its end, a tool, or of a page that lists. */
  const kindOf = (title, address, anchor) => {
    if (anchor.startsWith("term-")) return "term";
    if (anchor.startsWith("ledger-")) return "claim";
    if (/^\d+\. /.test(title)) return /^(questions|exercises|further-reading|what-comes-next|the-same-in)/.test(anchor) ? "end" : "chapter";
    return address.startsWith("reference/") ? "tool" : "list";
  };

  const INDEX = document.currentScript.dataset.index;
  let sections = [];
  let usual = 0; // letters of a section
  let vocabulary = new Set();
  let loading = null;

  const countWords = () => {
    sections = globalThis.searchIndex.flatMap(([title, address, parts]) => parts.map(([anchor, heading, text]) => (
      { title, address, anchor, heading, text, words: countsOf(text), named: countsOf(heading), kind: kindOf(title, address, anchor) })));
    for (const section of sections) section.length = section.text.length + 1;
    usual = sections.reduce((sum, { length }) => sum + length, 0) / sections.length;
    vocabulary = new Set(sections.flatMap(({ words, named }) => [...words.keys(), ...named.keys()]));
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

  /** The word of the book that is nearest to one that it does not have; null if none is near. */
  const nearest = (word) => {
    const most = word.length < 5 ? 1 : 2;
    let found = null;
    let least = most + 1;
    for (const other of vocabulary) {
      const far = distance(word, other, most);
      if (far < least) [found, least] = [other, far];
    }
    return found;
  };

  /** How much each word of the book is what was typed: the word itself, one that begins with it, or with what it begins with. */
  const meant = (word) => {
    const stem = word.replace(/(?<=.{4})(e[drs]?|ing|s)$/, "");
    const others = ALIKE[word]?.split(" ") ?? [];
    const near = vocabulary.has(word) ? 0.15 : 0.4;
    const found = new Map();
    for (const other of vocabulary) {
      const same = other === word || other === `${word}s` || `${other}s` === word;
      if (same || other.startsWith(word)) found.set(other, same ? 1 : 0.5);
      else if (others.includes(other)) found.set(other, 0.5);
      else if (other.startsWith(stem) && other.length < word.length + 3) found.set(other, near);
    }
    return found;
  };

  /** The sections that hold any of the words, the best first: rare words count most, and so do headings, and to have all. */
  const found = (words) => {
    const amounts = words.map((word) => {
      const likes = meant(word);
      const within = (counts) => [...likes].reduce((sum, [other, like]) => sum + like * (counts.get(other) ?? 0), 0);
      const scores = sections.map(({ words: counts, named, length }) => {
        const often = within(counts);
        return often / (often + 0.5 + length / usual) + 1.5 * Math.min(1, within(named));
      });
      const rare = Math.log(1 + sections.length / (1 + scores.filter(Boolean).length));
      return scores.map((score) => rare * score);
    });
    return sections
      .map((section, place) => {
        const scores = amounts.map((amount) => amount[place]);
        const share = scores.filter(Boolean).length / words.length;
        const names = [...section.named.keys()];
        const defined = ["term", "tool"].includes(section.kind) && names.every((name) => words.some((word) => `${name}s` === word || name === word || name === `${word}s`));
        const score = scores.reduce((sum, one) => sum + one, 0) * share ** 2 * WEIGHTS[section.kind];
        return { section, score: defined ? score * (names.length >= words.length ? 10 : names.length > 1 ? 4 : 1.5) : score };
      })
      .filter(({ score }) => score > 0)
      .sort((one, other) => other.score - one.score);
  };

  const element = (name, content, properties = {}) => {
    const made = Object.assign(document.createElement(name), properties);
    made.append(...[content].flat());
    return made;
  };

  /** Text with the words that were asked for marked. */
  const marked = (text, words) => text.split(/([\p{L}\p{N}_]+)/u).map((part) =>
    part && words.some((word) => folded(part).startsWith(word)) ? element("mark", part) : part);

  const excerpt = (section, words) => {
    const text = section.text;
    const places = [...text.matchAll(/[\p{L}\p{N}_]+/gu)];
    const first = places.find(([part]) => words.some((word) => folded(part).startsWith(word)))?.index ?? 0;
    const start = first <= AROUND ? 0 : text.indexOf(" ", first - AROUND) + 1;
    const end = first + 2 * AROUND >= text.length ? text.length : text.lastIndexOf(" ", first + 2 * AROUND);
    return marked(`${start ? "… " : ""}${text.slice(start, end)}${end < text.length ? " …" : ""}`, words);
  };

  const item = (section, words) => {
    const address = `${section.address}?highlight=${encodeURIComponent(words.join(" "))}${section.anchor ? `#${section.anchor}` : ""}`;
    const where = section.heading === section.title.replace(/^\d+\. /, "") ? [] : [element("span", NAMES[section.kind] ?? section.title, { className: "result-page" })];
    return element("li", [
      element("a", marked(section.heading, words), { href: address }), " ", ...where,
      element("p", excerpt(section, words), { className: "context" }),
    ]);
  };

  let latest = "";

  const search = async (query) => {
    latest = query;
    const results = document.getElementById("search-results");
    const said = document.getElementById("search-progress");
    const typed = [...new Set(wordsOf(query))];
    const telling = typed.filter((word) => !STOP.has(word));
    const asked = telling.length ? telling : typed;
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
    const words = asked.map((word) => {
      if (ALIKE[word] || [...vocabulary].some((other) => other.startsWith(word))) return word;
      const near = nearest(word);
      if (near) changed.push(`“${near}” in the place of “${word}”`);
      return near ?? word;
    });
    const all = found(words);
    const pages = new Set(all.map(({ section }) => section.address)).size;
    const count = all.length === 1 ? "One section" : `${all.length} sections in ${pages} page${pages === 1 ? "" : "s"}`;
    const instead = changed.length ? `, with ${changed.join(" and ")}, which the book does not have` : "";
    if (!all.length) {
      said.textContent = words.length > 1 ? "No section has any of these words." : `Nothing in the book has “${asked[0]}”.`;
      results.append(element("p", [
        "Try fewer words, or the beginning of one; or look for the idea in the ",
        element("a", "glossary", { href: "glossary.html" }), " or among the ", element("a", "figures and tables", { href: "lists.html" }), ".",
      ]));
      return;
    }
    said.textContent = `${count}${instead}${all.length > MOST ? `; the best ${MOST} are` : ""}:`;
    results.append(element("ul", all.slice(0, MOST).map(({ section }) => item(section, words)), { className: "search" }));
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
