// Runs Lighthouse on each address given, one after the other in one Chromium, and prints a line of JSON for each.
// Usage: node lighthouse.mjs FOLDER_OF_NODE_MODULES ADDRESS...; the browser is $CHROME_PATH.
"use strict";

import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, ...addresses] = process.argv.slice(2);
const require = createRequire(join(folder, "package.json"));
const load = (name) => import(pathToFileURL(require.resolve(name)));
const { default: lighthouse } = await load("lighthouse");
const { launch } = await load("chrome-launcher");
const { throttling } = await import(pathToFileURL(join(folder, "node_modules/lighthouse/core/config/constants.js")));
const SLOW_NETWORK = throttling.mobileSlow4G;

const FULL = ["accessibility", "best-practices", "seo"];
// What ends a visit that hangs: a page is not wrong because this machine is busy.
const PATIENCE = { maxWaitForFcp: 300_000, maxWaitForLoad: 600_000 };

// By what a phone's processor is simulated on this one: as many times slower as Lighthouse's docs/throttling.md has it for
// a desktop of the upper class, from a benchmark of 1500 on, and of the lower.
const slowdownOn = (benchmark) => (benchmark < 1500 ? 2 : 4);
let slowdown = 4;

/** The first elements or files that an audit complains about, as one would look for them. */
function complaints(audit) {
  const items = audit.details?.items ?? [];
  return items.slice(0, 3).map((item) => item.node?.selector ?? item.url ?? item.source?.url ?? item.description ?? "").filter(String);
}

/** What makes a page slow on any machine; bytes that are not used count where Lighthouse finds them worth a word. */
function counts(audits) {
  const wasted = (id) => audits[id].details?.items.reduce((sum, item) => sum + item.wastedBytes, 0);
  return {
    requests: audits["network-requests"].details?.items.length,
    elements: audits["dom-size"].numericValue,
    shift: audits["cumulative-layout-shift"].numericValue,
    unused_styles: wasted("unused-css-rules"),
    unused_scripts: wasted("unused-javascript"),
  };
}

/** What kept a category from its full score, the weightiest first. */
function reasons(category, audits) {
  return category.auditRefs
    .filter((ref) => ref.weight > 0 && audits[ref.id].score !== null && audits[ref.id].score < 1)
    .sort((a, b) => b.weight * (1 - audits[b.id].score) - a.weight * (1 - audits[a.id].score))
    .map(({ id }) => ({ id, title: audits[id].title, value: audits[id].displayValue ?? "", where: complaints(audits[id]) }));
}

const chrome = await launch({
  chromePath: process.env.CHROME_PATH,
  chromeFlags: ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-dev-shm-usage"],
});
try {
  for (const address of addresses) {
    // The default configuration is a phone: a small screen, a slow network and a slow processor, both simulated.
    const flags = {
      port: chrome.port, logLevel: "silent", output: "json", onlyCategories: ["performance", ...FULL], ...PATIENCE,
      disableFullPageScreenshot: true, // a picture for a report, which no audit looks at
    };
    const visit = async () => (await lighthouse(address, { ...flags, throttling: { ...SLOW_NETWORK, cpuSlowdownMultiplier: slowdown } })).lhr;
    let lhr = await visit();
    const fitting = slowdownOn(lhr.environment?.benchmarkIndex ?? 0);
    if (fitting !== slowdown) {
      slowdown = fitting;
      lhr = await visit();
    }
    const scores = {};
    for (const name of FULL) {
      const category = lhr.categories[name];
      scores[name] = { score: category.score, reasons: reasons(category, lhr.audits) };
    }
    const error = lhr.runtimeError?.message ?? null;
    const said = { address, error, speed: lhr.categories.performance.score, host: lhr.environment?.benchmarkIndex ?? 0, scores };
    console.log(JSON.stringify({ ...said, counts: said.error ? {} : counts(lhr.audits) }));
  }
} finally {
  chrome.kill();
}
