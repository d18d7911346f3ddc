"""The experiments on the reader's device: the book's statistics and equal products; effects are only printed."""

import json
from pathlib import Path

import numpy as np
import pytest
from built_site import serve
from gate_accessibility import check as accessibility_problems
from made_page import made_page, opened_page
from playwright.sync_api import Browser, expect

from tinytorch.chapters.noise.runs import between_ranks

EXPERIMENTS = ("memory", "acceleration", "noise")
PLACES = "".join(f'<div class="device" data-experiment="{name}"></div>' for name in EXPERIMENTS)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made_page(tmp_path_factory.mktemp("device"), ["device.css"], ["device.js"], PLACES)


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


def test_a_guess_comes_first_and_a_result_has_its_interval(browser: Browser, made: Path) -> None:
    with serve(made.parent) as base, opened_page(browser, f"{base}/index.html") as page:
        assert accessibility_problems(page) == []
        for name in EXPERIMENTS:
            place = page.locator(f".device[data-experiment={name}]")
            place.get_by_role("button", name="Measure this device").click()
            expect(place.get_by_role("progressbar")).to_be_hidden()  # no guess, no measurement
            place.locator("input").fill("2")
            place.get_by_role("button", name="Measure this device").click()
            expect(place.locator("strong")).to_contain_text("You guessed 2; this device shows")
            print(name, place.locator("strong").inner_text())
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
