"""Pages that are wrong on purpose, for the gates that run on Node.js: html-validate and Lighthouse."""

from pathlib import Path

import gate_html
import gate_lighthouse
import pytest
from broken_pages import GOOD_BODY, write_page
from built_site import serve
from check_site import NODE

#: What breaks the standard, with the rule that says so.
WRONG_HTML = {
    "no-implicit-close": "<p><div>x</div></p>",
    "element-permitted-content": "<ul><p>x</p></ul>",
    "no-dup-class": "<p class='a a'>x</p>",
    "attribute-allowed-values": "<form action=''><p>x</p></form>",
}


def test_html_that_breaks_the_standard_is_reported_and_good_html_is_clean(tmp_path: Path) -> None:
    for name, body in {**WRONG_HTML, "good": ""}.items():
        write_page(tmp_path, GOOD_BODY + body, name=f"{name}.html")
    found = gate_html.check(tmp_path, [f"{name}.html" for name in (*WRONG_HTML, "good")], NODE)
    assert sorted(found) == sorted(f"{name}.html" for name in WRONG_HTML)
    for name in WRONG_HTML:
        assert any(problem.startswith(f"{name}: line ") for problem in found[f"{name}.html"]), found


def test_lighthouse_tells_what_it_misses(tmp_path: Path) -> None:
    write_page(tmp_path, "<main><h1>Page</h1><img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='></main>")
    with serve(tmp_path) as base:
        [seen] = gate_lighthouse.visit([f"{base}/index.html"], NODE)
    said = "\n".join(gate_lighthouse.judge(seen))
    assert "Lighthouse accessibility is" in said
    assert "image-alt" in said


def test_lighthouse_counts_what_makes_a_page_slow(tmp_path: Path) -> None:
    (tmp_path / "unused.css").write_text("".join(f".never-{place} {{ color: red }}\n" for place in range(20_000)))
    (tmp_path / "unused.js").write_text("".join(f"function never{n}() {{ return {n} }}\n" for n in range(20_000)))
    # From the first picture on, and for a picture each: what moves twice between two pictures has not moved.
    move = "() => { document.body[n++ % 2 ? 'append' : 'prepend'](document.querySelector('hr')); "
    move += "if (n < 40) requestAnimationFrame(move) }"
    observed = "new PerformanceObserver(move).observe({ type: 'paint', buffered: true })"
    (tmp_path / "moves.js").write_text(f"let n = 0; const move = {move}; {observed}")
    (tmp_path / "asks.js").write_text("for (let n = 0; n < 40; n++) fetch(`index.html?${n}`)")
    head = "<link rel='stylesheet' href='unused.css'>"
    head += "".join(f"<script src='{name}.js' defer></script>" for name in ("unused", "asks", "moves"))
    tall = "<style>hr { height: 300px }</style>"
    write_page(tmp_path, f"{GOOD_BODY}{'<b>x</b>' * 6500}<hr>", head + tall)
    with serve(tmp_path) as base:
        [seen] = gate_lighthouse.visit([f"{base}/index.html"], NODE)
    assert [name for name, (most, _) in gate_lighthouse.MOST.items() if seen.counts[name] <= most] == []


#: In the place of Lighthouse: its speed says as how slow a phone the page was visited, its requests how often.
SAYS = """
let visits = 0;
export default async (address, flags) => {
  const names = ["accessibility", "best-practices", "seo"];
  const categories = Object.fromEntries(names.map((name) => [name, { score: 1, auditRefs: [] }]));
  categories.performance = { score: flags.throttling.cpuSlowdownMultiplier / 100 };
  const none = { numericValue: 0, details: { items: [] } };
  const ids = ["dom-size", "cumulative-layout-shift", "unused-css-rules", "unused-javascript"];
  const audits = Object.fromEntries(ids.map((id) => [id, none]));
  audits["network-requests"] = { details: { items: Array(++visits) } };
  return { lhr: { categories, audits, environment: { benchmarkIndex: HOST } } };
};
"""


@pytest.mark.parametrize(("host", "visits", "slowdown"), [(2000, [1, 2], 4), (1000, [2, 3], 2)])
def test_a_machine_of_the_lower_class_visits_once_more_and_as_a_less_slow_phone(
    tmp_path: Path, host: int, visits: list[int], slowdown: int
) -> None:
    for name, text in {
        "lighthouse/index.js": SAYS.replace("HOST", str(host)),
        "lighthouse/core/config/constants.js": "export const throttling = { mobileSlow4G: {} };",
        "chrome-launcher/index.js": "export const launch = async () => ({ port: 1, kill() {} });",
    }.items():
        path = tmp_path / "node_modules" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    for name in ("lighthouse", "chrome-launcher"):
        (tmp_path / "node_modules" / name / "package.json").write_text('{"type": "module", "main": "index.js"}')
    seen = gate_lighthouse.visit(["http://site/a.html", "http://site/b.html"], tmp_path)
    assert [visit.counts["requests"] for visit in seen] == visits
    assert [visit.speed for visit in seen] == [slowdown] * 2


def test_a_program_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises((RuntimeError, FileNotFoundError)):
        gate_html.check(tmp_path, ["index.html"], tmp_path)
