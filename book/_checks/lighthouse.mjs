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

const CATEGORIES = ["performance", "accessibility", "best-practices", "seo"];

/** The first elements or files that an audit complains about, as one would look for them. */
function complaints(audit) {
  const items = audit.details?.items ?? [];
  return items.slice(0, 3).map((item) => item.node?.selector ?? item.url ?? item.source?.url ?? item.description ?? "").filter(String);
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
    const { lhr } = await lighthouse(address, { port: chrome.port, logLevel: "silent", output: "json", onlyCategories: CATEGORIES });
    const scores = {};
    for (const name of CATEGORIES) {
      const category = lhr.categories[name];
      scores[name] = { score: category.score, reasons: reasons(category, lhr.audits) };
    }
    console.log(JSON.stringify({ address, error: lhr.runtimeError?.message ?? null, scores }));
  }
} finally {
  chrome.kill();
}
