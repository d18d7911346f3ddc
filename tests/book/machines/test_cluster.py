"""The place of the cluster explorer: clusters with their sources, and the machine of the build if it was measured."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from bs4 import BeautifulSoup
from measured_book.machines.cluster import FILE, GRID, ClusterExplorerNode
from measured_book.records.store import PageRecords
from measured_book.state import state_of

from tests.perf.made_ceilings import spread
from tinytorch.chapters.distributed.explorer import CLUSTERS
from tinytorch.report import Page
from tinytorch.report.records import Json

KEYS = ["link-alpha", "link-beta", "rate"]


def data_of(app: Any, keys: list[str]) -> tuple[Json, str]:
    """Return the grid of the place, and the ids of what it stands instead of."""
    html = ClusterExplorerNode(instead=["table-a", "figure-b"], machine=keys).html(app, "page")
    made = Path(app.outdir, FILE).read_text("utf-8").removeprefix(f"globalThis.{GRID} = ").removesuffix(";\n")
    place = BeautifulSoup(html, "html.parser").div
    assert place is not None
    assert not place.contents, "without JavaScript nothing is shown"
    assert place["data-grid"] == FILE
    return json.loads(made), str(place["data-instead"])


@pytest.fixture
def app(tmp_path: Path) -> Any:
    """A stand-in for Sphinx that knows one page's records."""
    page = Page("page")
    page.number("link-alpha", spread(4e-6, "s", 0.1))
    page.number("link-beta", spread(1e-10, "s/B", 0.1))
    page.number("rate", spread(5e10, "FLOP/s", 0.1))
    page.absent("other", reason="There is one core.")
    env = SimpleNamespace()
    records = PageRecords("page", {record.key: record.to_json() for record in page.records})
    state_of(env).of("page").records = records  # type: ignore[arg-type]
    return SimpleNamespace(env=env, outdir=tmp_path)


def test_published_clusters_come_with_their_sources(app: Any) -> None:
    made, instead = data_of(app, [])
    assert [one["name"] for one in made["clusters"]] == [one.name for one in CLUSTERS]
    assert all(address.startswith("https://") for one in made["clusters"] for _, address in one["sources"])
    assert instead == "table-a figure-b"


def test_the_machine_of_the_build_is_what_the_page_measured_of_it(app: Any) -> None:
    own = data_of(app, KEYS)[0]["clusters"][-1]
    assert own["inside"] == own["between"] == pytest.approx([4e-6, 1e10], rel=0.1)
    assert own["flops_per_second"] == pytest.approx(5e10, rel=0.1)
    assert own["memory_bytes"] is None
    records = state_of(app.env).records["page"].records
    assert own["ranks_per_node"] == records["provenance"]["machine"]["cores_usable"]


def test_what_this_build_did_not_measure_is_left_out_and_what_does_not_fit_is_a_warning(
    app: Any, caplog: pytest.LogCaptureFixture
) -> None:
    assert len(data_of(app, ["other", "link-beta", "rate"])[0]["clusters"]) == len(CLUSTERS)
    assert caplog.records == []
    for keys in (["link-alpha", "rate", "rate"], ["link-alpha", "missing", "rate"]):
        assert len(data_of(app, keys)[0]["clusters"]) == len(CLUSTERS)
        assert f"machine must name a record in s/B, not '{keys[1]}'" in caplog.text
        caplog.clear()
