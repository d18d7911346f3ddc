"""What a reader's notebook shows below a cell: every kind of record, whole, safe and without a style sheet."""

import io
import math
from html import escape

import pytest
from bs4 import BeautifulSoup
from PIL import Image

from tests.report.made_numbers import bounded
from tinytorch.perf.measuring import Measurement, Modelled
from tinytorch.perf.measuring.judge import Judgement, Verdict
from tinytorch.perf.measuring.measurement import Statistic
from tinytorch.perf.measuring.statistics import Interval
from tinytorch.report import Page
from tinytorch.report.figures import WIDE, draw_bars, subplots
from tinytorch.report.notebook_view import BUILDING, Shown, view

RUN = bounded(1.12e-3, 1.0e-3, 1.3e-3, "s", name="a <run>")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    monkeypatch.delenv(BUILDING, raising=False)
    made = Page("sample")
    made.number("latency", RUN)
    return made


def seen(shown: Shown) -> str:
    """Return the text that a reader sees, and check that no markup of the record's own came through."""
    soup = BeautifulSoup(shown._repr_mimebundle_()["text/html"], "html.parser")
    assert soup.find("run") is None
    for style in soup.find_all("style"):
        style.decompose()
    return " ".join(soup.get_text(" ").split())


def test_a_number_is_found_by_the_name_that_prose_has(page: Page) -> None:
    shown = page.number("again", RUN)
    assert seen(shown).startswith("again 1.12 ms")
    assert "interval 1.00 to 1.30" in seen(shown)
    assert "n = 6; a <run>" in seen(shown)
    assert shown.text.startswith("again: 1.12\u00a0ms (")


def test_what_is_shown_by_its_ends_does_not_say_them_twice(page: Page) -> None:
    wide = page.number("wide", bounded(1.05, 0.9, 9.0, name="gain"))
    assert wide.text == "wide: between 0.9 and 9× (97% interval, n = 6)"
    assert seen(wide) == "wide between 0.9 and 9× 97% interval, n = 6; gain"
    bounds = Interval(-math.inf, math.inf, math.nan)
    lost = page.number("lost", Statistic("gain", (1.0, 2.0), "", value=1.5, bounds=bounds))
    assert lost.text == "lost: not resolved (n = 2)"
    assert seen(lost) == "lost not resolved n = 2; gain"


def test_where_no_interval_tells_much_the_samples_are_shown(page: Page) -> None:
    few = page.number("few", Measurement("gain", (1.0, 1.2, 1.1), ""))
    assert few.text.endswith("(samples: 1.00, 1.20 and 1.10×)")


def test_a_modelled_number_says_so(page: Page) -> None:
    shown = page.number("wish", Modelled(0.5, "s", "half of it", "a law"))
    assert seen(shown) == "wish 500 ms modelled, not measured; half of it"
    assert "modelled" in shown.text


def test_numbers_stand_in_the_reasons_of_words_and_claims(page: Page) -> None:
    word = page.word("bound", "memory-bound", because="a run takes {latency}")
    assert "because a run takes 1.1" in seen(word)
    assert "{" not in word.text
    claim = page.claim(
        "slow",
        statement="It is <run> slow.",
        source="Folklore",
        quote="It is slow.",
        verdict=Judgement(Verdict.REFUTED),
        evidence="It took {latency}, not {other:key}.",
    )
    assert "✗ refuted It is <run> slow. It took 1.1" in seen(claim)
    assert "not other:key. Source: Folklore" in seen(claim)


def test_what_was_not_measured_says_why(page: Page) -> None:
    (shown,) = page.absent("torch", reason="PyTorch is not <installed>.")
    assert seen(shown) == "torch Not measured in this build: PyTorch is not <installed>."


def test_the_machine_comes_first(page: Page) -> None:
    record = page.records[0].to_json()
    said = view(record, None, str)
    assert said.startswith(f"Measured on {escape(record['machine']['cpu'])}, ")
    hosting = {"service": "Binder", "cpu_quota": 1.5, "memory_limit": None}
    shared = view({**record, "machine": {**record["machine"], "hosting": hosting}}, None, str)
    assert "shared host: Binder, CPU quota 1.5 of" in shared


def test_tables_and_figures_bring_their_style_and_name_no_colour(page: Page) -> None:
    table = page.table("ops", [{"op": "linear", "time": RUN}], [("op", "Op"), ("time", "Time")], caption="Where")
    figure, ax = subplots()
    draw_bars(ax, ["linear"], [RUN], quantity="latency", variants="numpy")
    drawn = page.figure("bars", figure, caption="The message.", alt="One bar.")
    for shown in (table, drawn):
        html = shown._repr_mimebundle_()["text/html"]
        style, _, rest = html.partition("</style>")
        assert style.startswith("<style>")
        assert "#" not in style
        assert "var(" not in rest
    assert "currentColor" in drawn.html
    assert drawn.png is None


def test_a_build_keeps_a_bitmap_of_a_figure_for_the_notebook(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BUILDING, "1")
    figure, ax = subplots()
    draw_bars(ax, ["linear"], [RUN], quantity="latency", variants="numpy")
    drawn = page.figure("bars", figure, caption="The message.", alt="One bar.")
    assert drawn.png is not None
    image = Image.open(io.BytesIO(drawn.png)).convert("RGB")
    assert image.width == int(WIDE.width * 192)
    assert image.getpixel((0, 0)) == (255, 255, 255)
    assert len(image.getcolors(100_000) or ()) > 10
    assert "<style>" not in drawn._repr_mimebundle_()["text/html"]
