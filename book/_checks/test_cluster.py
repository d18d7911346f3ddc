"""The cluster explorer in a browser: what it shows is what the package says, for every choice that it offers."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from built_site import serve
from gate_accessibility import check as accessibility_problems
from made_page import made_page, opened_page
from measured_book.machines.cluster import SCRIPTS, STYLES, explorer_html, grid_script
from playwright.sync_api import Browser, Locator, expect
from playwright.sync_api import Page as Tab

from tinytorch.chapters.distributed.explorer import CLUSTERS, GRID_RANKS, MODELS, RANKS, SHARDING, ClusterPreset, grid
from tinytorch.perf.distributed import Cluster, Prediction, Split, best_splits, predict
from tinytorch.perf.distributed.cluster_model.collective_costs import GivenLink
from tinytorch.report.numbers import format_number

OWN = ClusterPreset(
    'own "&<b>', Cluster(GivenLink(4e-6, 1e-10), GivenLink(4e-6, 0.0), 2), CLUSTERS[0].flops_per_second, None, ()
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page with the place, and what it stands instead of."""
    place = '<div id="table-splits">drawn at build time</div>' + explorer_html("grid.js", ["table-splits", "not-there"])
    folder = tmp_path_factory.mktemp("cluster")
    (folder / "grid.js").write_text(grid_script(grid((*CLUSTERS, OWN))), "utf-8")
    return made_page(folder, STYLES, SCRIPTS, place)


@pytest.fixture
def tab(browser: Browser, site: Path) -> Iterator[Tab]:
    """Return the page, opened as a file; nothing may have failed in it when the test is over."""
    with opened_page(browser, site) as opened:
        opened.locator(".cluster-answer").wait_for()
        yield opened


def said_by(place: Locator) -> str:
    """Return the text of a place with plain spaces."""
    return " ".join(place.inner_text().split())


def best_of(cluster: ClusterPreset, model: int, ranks: int, examples: int) -> tuple[list[Prediction], Prediction]:
    """Return what the package says: the splits that fit, and one rank that had memory enough."""
    work = MODELS[model].workload(cluster.flops_per_second).of_examples(examples)
    found = best_splits(work, cluster.links, ranks, memory_bytes=cluster.memory_bytes, sharding=SHARDING)
    return found, predict(work, cluster.links, Split())


def check_answer(tab: Tab, found: list[Prediction], one: Prediction) -> None:
    """Fail unless the explorer says of the fastest split what the package says of it."""
    step = format_number(found[0].seconds, "s").text.replace("\u00a0", " ")
    share = format_number(found[0].efficiency(one), "%").text.replace("\u00a0", " ")
    words = said_by(tab.locator(".cluster-answer"))
    assert f"The fastest of {len(found)} split" in words
    split = found[0].split
    assert f"is data {split.data} × tensor {split.tensor} × pipeline {split.pipeline}" in words
    assert f"takes {step}" in words
    assert f"an efficiency of {share}" in words
    assert words.endswith("model")


def test_the_page_begins_with_what_the_package_says_of_the_first_cluster(tab: Tab) -> None:
    found, one = best_of(CLUSTERS[0], 0, RANKS, MODELS[0].examples)
    check_answer(tab, found, one)
    first = found[0].split
    rows = tab.locator(".cluster-splits tbody tr")
    assert said_by(rows.first).startswith(f"{first.data} × {first.tensor} × {first.pipeline} ")
    assert tab.locator(".cluster-splits td:not(.modelled)").count() == 0
    assert tab.locator("#table-splits").is_hidden()
    assert tab.locator(".cluster-sources a").count() == 4


def test_it_is_made_when_a_reader_comes_near(browser: Browser, tmp_path: Path) -> None:
    far = '<p id="far">drawn at build time</p>' + explorer_html("grid.js", ["far"])
    (tmp_path / "grid.js").write_text(grid_script(grid((*CLUSTERS, OWN))), "utf-8")
    page = made_page(tmp_path, [], SCRIPTS, f"<p>{'<br>' * 300}</p>{far}")
    with opened_page(browser, page) as tab:
        tab.evaluate("() => new Promise(seen => requestAnimationFrame(() => requestAnimationFrame(seen)))")
        assert tab.locator(".cluster-explorer > *").count() == 0
        assert tab.locator("#far").is_visible()
        tab.locator("#far").scroll_into_view_if_needed()
        tab.locator(".cluster-answer").wait_for()
        assert tab.locator("#far").is_hidden()


def test_each_choice_shows_its_own_cell(tab: Tab) -> None:
    tab.get_by_label("Cluster", exact=True).select_option("16 V100 a node, 2019")
    tab.get_by_label("Model", exact=True).select_option("GPT of a trillion")
    tab.get_by_label("Ranks", exact=True).select_option("128")
    expect(tab.locator(".cluster-answer")).to_contain_text("No split of 128 ranks fits")
    assert tab.locator(".cluster-splits table").count() == 0
    tab.get_by_label("Ranks", exact=True).select_option("4,096")
    tab.get_by_label("Batch, in sequences").select_option("12,288")
    expect(tab.locator(".cluster-answer")).to_contain_text("The fastest")
    check_answer(tab, *best_of(CLUSTERS[1], 3, 4096, 12288))
    assert "39.0 TFLOP/s" in said_by(tab.locator(".cluster-about"))
    assert "A node has 16 ranks" in said_by(tab.locator(".cluster-about"))


def test_the_machine_of_the_build_has_no_limit_of_memory_and_a_link_without_a_bandwidth(tab: Tab) -> None:
    tab.get_by_label("Cluster", exact=True).select_option('own "&<b>')
    tab.get_by_label("Ranks", exact=True).select_option("1")
    about = said_by(tab.locator(".cluster-about"))
    assert "unlimited memory" in about
    assert "between nodes has a latency of 4.00 µs. The" in about
    words = said_by(tab.locator(".cluster-answer"))
    assert "of 1 split is" in words
    assert "an efficiency of 100 %" in words
    assert "Shoeybi" not in said_by(tab.locator(".cluster-sources"))


def test_every_point_of_the_curves_is_reached_by_key_and_says_its_values(tab: Tab) -> None:
    work = MODELS[0].workload(CLUSTERS[0].flops_per_second)
    fits = [
        bool(best_splits(one, CLUSTERS[0].links, ranks, memory_bytes=CLUSTERS[0].memory_bytes, sharding=SHARDING))
        for ranks in GRID_RANKS
        for one in (work, work.of_examples(4 * ranks))
    ]
    spots = tab.locator(".explorer-chart .spot")
    assert spots.count() == sum(fits)
    spots.first.focus()
    words = said_by(tab.locator(".explorer-readout"))
    assert words.startswith("2 ranks, the batch stays constant: ")
    assert words.endswith("(modelled)")
    tab.keyboard.press("Tab")
    assert said_by(tab.locator(".explorer-readout")).startswith("4 ranks, the batch stays constant: ")
    tab.locator(".cluster-curve summary").click()
    assert tab.locator(".cluster-curve tbody tr").count() == len(GRID_RANKS) - 1, "one rank has too little memory"


def test_what_a_reader_chose_stays_in_the_address(browser: Browser, site: Path) -> None:
    with serve(site.parent) as base, opened_page(browser, f"{base}/{site.name}") as tab:
        chosen = {"Cluster": "16 V100 a node, 2019", "Model": "GPT of a trillion", "Ranks": "4,096"}
        chosen["Batch, in sequences"] = "12,288"
        for label, value in chosen.items():
            tab.get_by_label(label, exact=True).select_option(value)
        tab.goto(tab.url)
        for label, value in chosen.items():
            expect(tab.get_by_label(label, exact=True).locator("option:checked")).to_have_text(value)
        check_answer(tab, *best_of(CLUSTERS[1], 3, 4096, 12288))


def test_it_has_no_fault_of_accessibility_folded_and_unfolded(tab: Tab) -> None:
    assert accessibility_problems(tab) == []
    tab.locator(".cluster-curve summary").click()
    assert accessibility_problems(tab) == []
