"""What a reader's notebook shows below a cell: every kind of record, whole, safe and without a style sheet."""

import io
from html import escape
from typing import Any

import pytest
from bs4 import BeautifulSoup
from PIL import Image

from tests.chosen_settings import choose_settings
from tests.report.made_measurements import bounded
from tinytorch.perf.measuring import Measurement, Modelled, Unmeasured, derived
from tinytorch.report import Page
from tinytorch.report.figures import draw_bars, subplots
from tinytorch.report.kinds import of_kind
from tinytorch.report.layouts import WIDE
from tinytorch.report.page import Shown

RUN = bounded(1.12e-3, 1.0e-3, 1.3e-3, "s", name="a <run>")


@pytest.fixture
def page(monkeypatch: pytest.MonkeyPatch) -> Page:
    choose_settings(monkeypatch, building_book="")
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


@pytest.mark.parametrize(
    ("value", "text", "html"),
    [
        (  # what is shown by its ends does not say them twice
            bounded(1.05, 0.9, 9.0, name="gain"),
            "between 0.9 and 9× (95% interval, n = 6)",
            "between 0.9 and 9× 95% interval, n = 6; gain",
        ),
        (Measurement("gain", (1.1,), ""), "1.10×", "1.10× gain"),
        (  # of several that are read together
            bounded(1.2, 1.1, 1.3, name="gain").together(10),
            "1.20× (99.5% interval 1.05 to 1.35×, n = 6)",
            "1.20× 99.5% interval 1.05 to 1.35×, n = 6; gain",
        ),
        (  # what was computed of others
            derived("area", lambda side: side**2, bounded(1.2, 1.1, 1.3, n=1)),
            "1.4× (95% interval 1.2 to 1.7×)",
            "1.4× 95% interval 1.2 to 1.7×; area",
        ),
        (
            Modelled(0.5, "s", "half of it", "a law"),
            "modelled, 500 ms",
            "500 ms modelled, not measured; half of it",
        ),
        (
            Unmeasured("PyTorch is not <installed>."),
            "Not measured in this build: PyTorch is not <installed>.",
            "Not measured in this build: PyTorch is not <installed>.",
        ),
    ],
)
def test_a_number_says_how_sure_it_is(page: Page, value: Any, text: str, html: str) -> None:
    shown = page.number("it", value)
    assert shown.text.replace("\u00a0", " ") == f"it: {text}"
    assert seen(shown) == f"it {html}"


def test_the_machine_comes_first(page: Page) -> None:
    record = page.records[0]
    said = of_kind(record).html(None)
    assert said.startswith(f"Measured on {escape(record['machine']['cpu'])}, ")
    hosting = {"service": "Binder", "cpu_quota": 1.5, "memory_limit": None}
    shared = of_kind({**record, "machine": {**record["machine"], "hosting": hosting}}).html(None)
    assert "shared host: Binder, CPU quota 1.5 of" in shared


def one_bar(page: Page) -> Shown:
    figure, ax = subplots()
    draw_bars(ax, ["linear"], [RUN], quantity="latency", variants="numpy")
    return page.figure("bars", figure, caption="The message.", alt="One bar.")


def test_tables_and_figures_bring_their_style_and_name_no_colour(page: Page) -> None:
    table = page.table("ops", [{"op": "linear", "time": RUN}], [("op", "Op"), ("time", "Time")], caption="Where")
    drawn = one_bar(page)
    for shown in (table, drawn):
        html = shown._repr_mimebundle_()["text/html"]
        style, _, rest = html.partition("</style>")
        assert style.startswith("<style>")
        assert "#" not in style
        assert "var(" not in rest
    assert "currentColor" in drawn.html
    assert drawn.png is None


def test_a_build_keeps_a_bitmap_of_a_figure_for_the_notebook(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    choose_settings(monkeypatch, building_book="1")
    drawn = one_bar(page)
    assert drawn.png is not None
    image = Image.open(io.BytesIO(drawn.png)).convert("RGB")
    assert image.width == int(WIDE.width * 192)
    assert image.getpixel((0, 0)) == (255, 255, 255)
    assert len(image.getcolors(100_000) or ()) > 10
    assert "<style>" not in drawn._repr_mimebundle_()["text/html"]
