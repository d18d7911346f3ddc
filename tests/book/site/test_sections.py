"""The index of the search: the text of each section with its numbers, and the questions that lead to it."""

import json
from pathlib import Path

import pytest
from measured_book.site.sections import index_of, questions_in, sections_in, sections_of

PAGE = """<html><nav><p>Menu</p></nav><article>
<section id="top"><h1><span class="chapter-number">3</span> Roofs<a class="headerlink" href="#top">#</a></h1>
<p>A product takes <button class="measured">5 ms</button><span popover class="measured-detail">Of 30.</span>,<br>
and an <em>addition</em> less.</p>
<section id="ridge"><h2>The ridge</h2><table><thead><tr><th class="numeric">Time</th></tr></thead>
<tbody><tr><th>add</th><td class="numeric">7</td></tr></tbody></table>
<svg><desc>A plot</desc></svg><p>Compute&nbsp;more &amp; move less.</p></section>
<p>At the end <math><mi>n</mi></math> <math><msup><mi>m</mi><mn>2</mn></msup></math>
<math><mfrac><mi>a</mi><mi>b</mi></mfrac></math>.</p></section></article><footer>Foot</footer></html>"""


def test_each_section_has_its_own_text_alone() -> None:
    assert sections_of(PAGE) == [
        ["top", "Roofs", "A product takes 5 ms, and an addition less. At the end n m^2 …."],
        ["ridge", "The ridge", "Time add Compute more & move less."],
    ]


def test_a_word_of_the_glossary_and_a_claim_are_found_by_themselves() -> None:
    glossary = """<dl class="glossary"><dt id="term-batch">batch</dt><dd><p>Examples of one <em>call</em>.</p></dd>
<dt id="term-BLAS">BLAS</dt><dd><p>An interface.</p></dd></dl>"""
    claim = '<tr id="ledger-ten"><th scope="row">Ten times.<p><q>10x</q></p></th><td>What was found.'
    claim += '<div class="claim-test">1.2</div></td></tr>'
    page = f"""<article><section id="words"><h1>Words</h1>{glossary}<p>Between.</p>
<table><tr><th>Claim</th></tr>{claim}</table><p>Behind.</p></section></article>"""
    assert sections_of(page) == [
        ["words", "Words", "Between. Claim Behind."],
        ["term-batch", "batch", "Examples of one call."],
        ["term-BLAS", "BLAS", "An interface."],
        ["ledger-ten", "Ten times.", "10x What was found."],
    ]


def test_the_index_is_a_script_of_pages_and_sections() -> None:
    text = index_of([("3. Roofs", "roofline.html", sections_of(PAGE))], [("how fast", "roofline.html#top")])
    values = dict(line.rstrip(";").split(" = ", 1) for line in text.splitlines())
    assert json.loads(values["globalThis.searchQuestions"]) == [["how fast", "roofline.html#top"]]
    [[title, address, sections]] = json.loads(values["globalThis.searchIndex"])
    assert (title, address) == ("3. Roofs", "roofline.html")
    assert [section[0] for section in sections] == ["top", "ridge"]
    assert sections_in(text) == {"roofline.html": sections}
    of_an_older_version = text.partition(";\nglobalThis.searchQuestions")[0] + ";\n"
    assert sections_in(of_an_older_version) == {"roofline.html": sections}


def test_a_question_whose_section_is_gone_is_warned_of_and_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "search.txt"
    path.write_text("# Questions\nhow fast | roofline.html#top\n\nhow slow | roofline.html#gone\n")
    assert questions_in(path, [("3. Roofs", "roofline.html", sections_of(PAGE))]) == [("how fast", "roofline.html#top")]
    assert "roofline.html#gone" in caplog.text
    assert questions_in(tmp_path / "none.txt", []) == []
