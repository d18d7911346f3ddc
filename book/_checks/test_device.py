"""The experiments on the reader's device: the book's statistics and equal products; effects are only printed."""

import json
import re
from pathlib import Path

import numpy as np
import pytest
from built_site import serve
from gate_accessibility import check as accessibility_problems
from made_page import made_page, opened_page
from PIL import Image
from playwright.sync_api import Browser, expect

from tinytorch.chapters.noise.runs import between_ranks

EXPERIMENTS = ("memory", "acceleration", "noise")
BOOK = [[2**power, 2 * (power - 12)] for power in range(13, 28)]
PLACES = "".join(
    f'<div class="device" data-experiment="{name}"{f" data-book={json.dumps(json.dumps(BOOK))}" * (name == "memory")}>'
    "</div>"
    for name in EXPERIMENTS
)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_page(tmp_path_factory.mktemp("device"), ["device.css"], ["figures.js", "device.js"], PLACES)


def test_the_interval_is_the_books(browser: Browser, made: Path) -> None:
    with opened_page(browser, made) as page:
        for n in (6, 7, 9, 12, 15, 16, 40):
            samples = [float((7 * place) % n if n % 7 else place) for place in range(n)]
            low, high = page.evaluate("samples => device.interval(samples)", samples)
            expected = between_ranks(np.array(samples))
            assert (low, high) == (expected.low, expected.high), n
        assert page.evaluate("device.interval([1, 2, 3, 4, 5])") is None
        assert page.evaluate("[device.median([3, 1, 2]), device.median([4, 1, 2, 3])]") == [2, 2.5]


def test_a_chain_visits_every_line_once(browser: Browser, made: Path) -> None:
    with opened_page(browser, made) as page:
        script = """() => { const next = device.chain(2 ** 14), seen = new Set();
          for (let at = 0; !seen.has(at); at = next[at]) seen.add(at); return seen.size }"""
        assert page.evaluate(script) == 2**14 / 64


def test_both_products_are_the_same(browser: Browser, made: Path) -> None:
    with opened_page(browser, made) as page:
        script = """() => { const n = 8, a = Float64Array.from({length: n * n}, (_, i) => i), b = a.slice().reverse();
          const of = f => { const c = new Float64Array(n * n); f(a, b, c, n); return [...c] };
          return [of(device.threeLoops), of(device.tiled)] }"""
        loops, tile = page.evaluate(script)
        assert loops == tile
        assert loops[0] == sum(k * (63 - 8 * k) for k in range(8))


def test_from_a_folder_it_says_what_is_needed_and_measures_nothing(browser: Browser, made: Path) -> None:
    context = browser.new_context()  # the browser itself may complain of the worker
    page = context.new_page()
    page.goto(made.as_uri())
    page.fill("#device-noise", "1")
    page.press("#device-noise", "Enter")
    expect(page.locator(".device[data-experiment=noise] [role=status]")).to_contain_text("make serve")
    context.close()


def test_a_result_answers_the_guess_and_has_its_interval(browser: Browser, made: Path) -> None:
    with serve(made.parent) as base, opened_page(browser, f"{base}/index.html") as page:
        assert accessibility_problems(page) == []
        for name in EXPERIMENTS:
            place = page.locator(f".device[data-experiment={name}]")
            place.locator("input").fill("2")
            place.get_by_role("button", name="Measure this device").click()
            expect(place.get_by_role("status")).to_contain_text("You guessed 2; this device shows")
            print(name, place.get_by_role("status").inner_text())
            place.get_by_text("All numbers").click()
            address = place.get_by_role("link", name="Download").get_attribute("href") or ""
            samples = page.evaluate("address => decodeURIComponent(address.slice(address.indexOf(',') + 1))", address)
            assert {len(row["samples"]) >= 6 for row in json.loads(samples)["rows"]} == {True}
        assert accessibility_problems(page) == []


def test_it_can_be_stopped(browser: Browser, made: Path) -> None:
    with serve(made.parent) as base, opened_page(browser, f"{base}/index.html") as page:
        place = page.locator(".device[data-experiment=memory]")
        place.locator("input").fill("2")
        # In one turn of the page, so that no machine is fast enough to have measured before it is stopped.
        place.evaluate("place => place.querySelectorAll('button').forEach(button => button.click())")
        expect(place.get_by_role("status")).to_contain_text("Stopped")
        expect(place.get_by_role("button", name="Measure this device")).to_be_enabled()


def test_the_readers_curve_is_drawn_over_the_books_and_can_be_taken(browser: Browser, made: Path) -> None:
    with serve(made.parent) as base, opened_page(browser, f"{base}/index.html") as page:
        place = page.locator(".device[data-experiment=memory]")
        assert place.get_by_role("img").get_attribute("aria-label") == (
            "Latency of one load. the book’s machine: from 2 ns at 8 KiB to 30 ns at 128 MiB."
        )
        place.get_by_role("button", name="Measure this device").click()  # without a guess
        expect(place.get_by_role("status")).to_contain_text("This device shows")
        drawing = place.get_by_role("img")
        expect(drawing).to_have_attribute("aria-label", re.compile("this device: from .* at 16 KiB to .* at 64 MiB"))
        assert place.locator("svg text", has_text="your guess").count() == 0
        page.evaluate("() => { navigator.clipboard.write = () => Promise.reject(new Error('not allowed')); }")
        with page.expect_download() as taken:
            place.get_by_role("button", name="Copy as a picture").click()
        picture = Image.open(taken.value.path())
        assert (picture.format, picture.size) == ("PNG", (1200, 825))
        assert picture.getchannel("A").getextrema() == (0, 255), "ink on a page without a colour of its own"
