"""A browser computes the same prediction as the package, for any split, and lets readers try their own clusters."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from gate_accessibility import check as accessibility_problems
from made_page import made_page, opened_page
from measured_book.machines.cluster import SCRIPTS, STYLES, explorer_html
from playwright.sync_api import Browser, Locator, expect
from playwright.sync_api import Page as Tab

from tinytorch.perf.distributed.larger import presets
from tinytorch.perf.distributed.larger.links import Cluster, GivenLink
from tinytorch.perf.distributed.larger.prediction import Prediction, Split, predict
from tinytorch.perf.distributed.larger.splits import best_splits
from tinytorch.perf.distributed.larger.workload import Part, Workload, transformer_workload
from tinytorch.report.numbers import format_number

PREDICT = """cases => cases.map(({ workload, links, split }) => {
  const { split: _, ranks, ...found } = globalThis.cluster.predict(workload, links, split);
  return found;
})"""
BEST = """({ model, links, ranks, options }) =>
  globalThis.cluster.bestSplits(globalThis.cluster.transformer(model), links, ranks, options)
    .map(({ split: { data, tensor, pipeline, micro }, seconds, memory }) =>
      [data, tensor, pipeline, micro, seconds, memory.total])"""
PARTS = ("seconds", "computing", "bubble", "tensor", "handing", "gradients", "updating", "hidden")
WORDS = ("gradient_algorithm", "tensor_algorithm")
MEMORY = ("weights", "gradients", "state", "activations", "total")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a page with the place, and what it stands instead of."""
    own = {**presets.as_json()["clusters"][0], "name": 'own "&<b>', "sources": [], "memory_bytes": None}
    made = presets.as_json()
    made["clusters"].append(own)
    place = '<div id="table-splits">drawn at build time</div>' + explorer_html(made, ["table-splits", "not-there"])
    return made_page(tmp_path_factory.mktemp("cluster"), STYLES, SCRIPTS, place)


@pytest.fixture
def tab(browser: Browser, site: Path) -> Iterator[Tab]:
    """Return the page, opened as a file; nothing may have failed in it when the test is over."""
    with opened_page(browser, site) as opened:
        yield opened


def said_by(place: Locator) -> str:
    """Return the text of a place with plain spaces."""
    return " ".join(place.inner_text().split())


def links_of(cluster: Cluster) -> dict[str, Any]:
    line = {name: {"alpha_s": getattr(cluster, name).alpha_s, "beta_s_per_byte": getattr(cluster, name).beta_s_per_byte}
            for name in ("inside", "between")}  # fmt: skip
    return {**line, "ranks_per_node": cluster.ranks_per_node}


def a_part(draw: random.Random) -> Part:
    counts = sorted(draw.sample(range(1, 60), draw.choice([0, 0, 1, 2, 3, 5])))
    return Part(
        draw.choice([0.0, draw.random() * 1e-3]),
        draw.random() * 1e-3,
        draw.choice([0.0, draw.random() * 1e-3]),
        draw.randint(0, 10**8),
        draw.randint(1, 10**5),
        draw.random() * 1e6,
        draw.random() * 1e6,
        tuple((float(count), draw.random() * 1e-2, draw.random() * 1e-3) for count in counts),
    )


def a_case(draw: random.Random) -> tuple[Workload, Cluster, Split]:
    """Return a workload, a cluster and a split that fit each other."""
    data, micro, pipeline = draw.randint(1, 48), draw.randint(1, 16), draw.randint(1, 9)
    workload = Workload(
        "made up",
        draw.randint(pipeline, 60),
        24,
        data * micro * draw.randint(1, 5),
        a_part(draw),
        a_part(draw),
        draw.random(),
        draw.choice([0.0, 1e-9]),
        draw.random() * 1e6,
        draw.choice([4, 6]),
        draw.randint(0, 10**6),
        draw.choice([2, 4]),
        draw.choice([2, 4]),
        draw.choice([8, 12]),
        "made up",
    )
    inside, between = (GivenLink(draw.random() * 10 ** draw.uniform(-6, -3), draw.random() * 1e-8) for _ in range(2))
    overlap = draw.choice([0.0, 1.0, draw.random()])
    split = Split(
        data, draw.choice([1, 2, 3, 4, 8]), pipeline, micro, draw.randint(0, 3), overlap, draw.choice([1e6, 25 * 2**20])
    )
    return workload, Cluster(inside, between, draw.choice([1, 2, 4, 6, 8, 16])), split


def test_browser_and_package_predict_alike(tab: Tab) -> None:
    draw = random.Random(0)
    cases = [a_case(draw) for _ in range(600)]
    asked = [
        {"workload": asdict(workload), "links": links_of(cluster), "split": asdict(split)}
        for workload, cluster, split in cases
    ]
    seen: set[tuple[str, str]] = set()
    for case, found in zip(cases, tab.evaluate(PREDICT, asked), strict=True):
        expected = predict(*case)
        for name in PARTS:
            assert found[name] == pytest.approx(getattr(expected, name), rel=1e-12, abs=1e-15 * expected.seconds), name
        for name in MEMORY:
            assert found["memory"][name] == pytest.approx(getattr(expected.memory, name), rel=1e-12), name
        assert [found[name] for name in WORDS] == [getattr(expected, name) for name in WORDS]
        seen.add((expected.gradient_algorithm, expected.tensor_algorithm))
    assert len(seen) > 10, "else most formulas were not met"


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("number_bytes", [2, 4])
def test_browser_and_package_find_the_same_splits(tab: Tab, recompute: bool, number_bytes: int) -> None:
    model: dict[str, Any] = {
        "layers": 30,
        "width": 3072,
        "heads": 32,
        "positions": 2048,
        "vocabulary": 51_200,
        "examples": 480,
        "flops_per_second": 1e14,
        "recompute": recompute,
        "number_bytes": number_bytes,
    }
    cluster = presets.CLUSTERS[0].links
    options: dict[str, Any] = {"memory_bytes": 60e9, "sharding": 1, "overlap": 0.3}
    asked = {"model": model, "links": links_of(cluster), "ranks": 240, "options": options}
    expected = best_splits(transformer_workload(**model), cluster, 240, **options)
    assert len(expected) > 10
    found = tab.evaluate(BEST, asked)
    assert found == [
        [*(getattr(one.split, kind) for kind in ("data", "tensor", "pipeline", "micro")), *map(pytest.approx, numbers)]
        for one in expected
        for numbers in [(one.seconds, one.memory.total)]
    ]


def preset_best() -> tuple[list[Prediction], Prediction]:
    cluster, model = presets.CLUSTERS[0], presets.MODELS[0]
    workload = model.workload(cluster.flops_per_second)
    found = best_splits(
        workload, cluster.links, presets.RANKS, memory_bytes=cluster.memory_bytes, sharding=presets.SHARDING
    )
    return found, predict(workload, cluster.links, Split())


def test_the_page_begins_with_what_the_package_says_of_the_presets(tab: Tab) -> None:
    found, one = preset_best()
    step = format_number(found[0].seconds, "s").text.replace("\u00a0", " ")
    share = format_number(found[0].efficiency(one), "%").text.replace("\u00a0", " ")
    words = said_by(tab.locator(".cluster-answer"))
    assert f"The fastest of {len(found)} splits is {found[0].split}" in words
    assert f"a step takes {step}" in words
    assert f"an efficiency of {share}" in words
    assert words.endswith("model")
    rows = tab.locator(".cluster-splits tbody tr")
    first = found[0].split
    assert said_by(rows.first).startswith(f"{first.data} × {first.tensor} × {first.pipeline} ")
    assert tab.locator(".cluster-splits td:not(.modelled)").count() == 0
    assert tab.locator("#table-splits").is_hidden()
    assert tab.locator(".cluster-sources a").count() == 2


def test_what_is_typed_is_computed_and_what_cannot_be_is_refused_in_words(tab: Tab) -> None:
    answer = tab.locator(".cluster-answer")
    tab.get_by_label("Ranks", exact=True).fill("1")
    tab.get_by_label("Memory of a rank").fill("")
    expect(tab.locator(".cluster-answer")).to_contain_text("of 1 split is")
    assert "an efficiency of 100 %" in said_by(answer)
    tab.get_by_label("Memory of a rank").fill("1 G")
    expect(tab.locator(".cluster-answer")).to_contain_text("No split")
    assert "or all need more than 954 MiB" in said_by(answer)
    assert tab.locator(".cluster-splits table").count() == 0
    for label, text, why in (
        ("Ranks", "2.5", "must be a whole number up to 65,536"),
        ("Ranks", "many", "must be a number above 0"),
        ("Width", "4097", "must be a multiple of the 32 heads"),
        ("Hidden gradients", "1.5", "must be at most 1"),
        ("Bandwidth in a node", "0", "must be a number above 0: B/s in one direction, such as 300 G"),
    ):
        field = tab.get_by_label(label, exact=True)
        before = field.input_value()
        field.fill(text)
        expect(tab.locator(".cluster-answer")).to_contain_text("Nothing")
        assert field.get_attribute("aria-invalid") == "true"
        hint = tab.locator(f"#{field.get_attribute('aria-describedby')}")
        assert said_by(hint) == why
        field.fill(before)
        expect(tab.locator(".cluster-answer")).not_to_contain_text("Nothing")
        assert field.get_attribute("aria-invalid") == "false"


def test_presets_fill_their_fields_and_say_whose_they_are(tab: Tab) -> None:
    tab.get_by_label("Begin with").nth(0).select_option("16 V100 a node, 2019")
    tab.get_by_label("Begin with").nth(1).select_option("GPT of a trillion")
    assert tab.get_by_label("Rate of a rank").input_value() == "39 T"
    assert tab.get_by_label("Bandwidth between").input_value() == "6.25 G"
    assert tab.get_by_label("Latency in a node").input_value() == "3.4 u"
    assert tab.get_by_label("Blocks").input_value() == "128"
    expect(tab.locator(".cluster-answer")).to_contain_text("No split of 128")
    tab.get_by_label("Begin with").nth(0).select_option('own "&<b>')
    assert tab.get_by_label("Memory of a rank").input_value() == ""
    expect(tab.locator(".cluster-answer")).to_contain_text("The fastest")
    assert "Shoeybi" not in said_by(tab.locator(".cluster-sources"))


def test_every_point_of_the_curves_is_reached_by_key_and_says_its_values(tab: Tab) -> None:
    spots = tab.locator(".explorer-chart .spot")
    assert spots.count() == 24, "two curves, and one rank has too little memory"
    spots.first.focus()
    words = said_by(tab.locator(".explorer-readout"))
    assert words.startswith("2 ranks, the batch stays: ")
    assert words.endswith("(modelled)")
    tab.keyboard.press("Tab")
    assert said_by(tab.locator(".explorer-readout")).startswith("4 ranks, the batch stays: ")
    tab.locator(".cluster-curve summary").click()
    assert tab.locator(".cluster-curve tbody tr").count() == 12


def test_it_has_no_fault_of_accessibility_folded_and_unfolded(tab: Tab) -> None:
    assert accessibility_problems(tab) == []
    tab.locator(".cluster-curve summary").click()
    tab.get_by_label("Ranks", exact=True).fill("many")
    assert accessibility_problems(tab) == []
