"""The place of the cluster explorer: clusters with their sources."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from bs4 import BeautifulSoup
from measured_book.machines.cluster import FILE, GRID, ClusterExplorerNode

from tinytorch.chapters.distributed import explorer


def test_published_clusters_come_with_their_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explorer, "MODELS", ())  # and so no cells, which are not looked at here
    app = cast(Any, SimpleNamespace(outdir=tmp_path))
    html = ClusterExplorerNode(instead=["table-a", "figure-b"]).html(app, "page")
    made = json.loads((tmp_path / FILE).read_text("utf-8").removeprefix(f"globalThis.{GRID} = ").removesuffix(";\n"))
    place = BeautifulSoup(html, "html.parser").div
    assert place is not None
    assert not place.contents, "without JavaScript nothing is shown"
    assert place["data-grid"] == FILE
    assert place["data-instead"] == "table-a figure-b"
    assert [one["name"] for one in made["clusters"]] == [one.name for one in explorer.CLUSTERS]
    assert all(address.startswith("https://") for one in made["clusters"] for _, address in one["sources"])
