"""Pages that are wrong on purpose, for the gates that run on Node.js: html-validate and Lighthouse."""

from pathlib import Path

import gate_html
import gate_lighthouse
from broken_pages import GOOD_BODY, write_page
from built_site import serve
from check_site import NODE

#: What breaks the standard, with the rule that says so.
WRONG_HTML = {
    "no-implicit-close": "<p><div>x</div></p>",
    "element-permitted-content": "<ul><p>x</p></ul>",
    "no-dup-class": "<p class='a a'>x</p>",
    "attribute-allowed-values": "<form action=''><p>x</p></form>",
    "no-dup-id": "<p id='a'>x</p><p id='a'>y</p>",
    "wcag/h37": "<img src='a.png'>",
}


def test_html_that_breaks_the_standard_is_reported_and_good_html_is_clean(tmp_path: Path) -> None:
    pages = {name: f"{name.replace('/', '-')}.html" for name in WRONG_HTML}
    for name, page in {**pages, "good": "good.html"}.items():
        write_page(tmp_path, GOOD_BODY + WRONG_HTML.get(name, ""), name=page)
    found = gate_html.check(tmp_path, [*pages.values(), "good.html"], NODE)
    assert sorted(found) == sorted(pages.values())
    for name, page in pages.items():
        assert any(problem.startswith(f"{name}: line ") for problem in found[page]), found


def test_lighthouse_tells_what_it_misses(tmp_path: Path) -> None:
    write_page(tmp_path, "<main><h1>Page</h1><img src='data:image/gif;base64,R0lGODlhAQABAAAAACw='></main>")
    with serve(tmp_path) as base:
        said = "\n".join(gate_lighthouse.judge(gate_lighthouse.visit(f"{base}/index.html", NODE)))
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
        said = gate_lighthouse.judge(gate_lighthouse.visit(f"{base}/index.html", NODE))
    assert [what for _, what in gate_lighthouse.MOST.values() if what not in "\n".join(said)] == []
