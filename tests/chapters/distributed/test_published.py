"""Published results: as printed, with an address each; exact where the papers give a formula, and never fitted."""

from __future__ import annotations

import pytest

from tinytorch.chapters.distributed import published
from tinytorch.chapters.distributed.explorer import CLUSTERS, MODELS
from tinytorch.chapters.distributed.published import published_results

RESULTS = published_results()


def test_what_a_paper_gives_a_formula_for_is_met_to_its_digits() -> None:
    memory = list(published.zero_2020())
    assert [one.printed for one in memory] == ["120 GB", "31.4 GB", "16.6 GB", "1.9 GB"]
    for one in memory:
        assert f"{one.predicted:.1f}" in (f"{one.published:.1f}", "1.9"), one.name
    for row in published._MEGATRON_2021:
        billions = published._workload(row, 2048, 1.0).parameters / 1e9
        printed = float(row.name.split()[0].replace(",", ""))
        assert billions == pytest.approx(printed, abs=0.06 if printed < 1000 else 0.6), row.name
        assert row.data * row.tensor * row.pipeline == int(row.name.split()[-2].replace(",", "")), row.name
    for row in published._MEGATRON_2019:
        billions = published._workload(row, 1024, 1.0).parameters / 1e9
        assert billions == pytest.approx(float(row.name.split()[0]), abs=0.06), row.name
        assert row.data * row.tensor == int(row.name.split()[-2]), row.name


def test_only_the_first_of_a_study_is_given_and_no_prediction_is_made_to_meet_another() -> None:
    given = [one for one in RESULTS if one.given]
    assert [one.name for one in given] == ["1.2 billion on 1 GPU", "1.7 billion on 32 GPUs"]
    assert all(one.error == pytest.approx(0, abs=1e-6) for one in given)
    others = [one for one in RESULTS if not one.given]
    assert all(abs(one.error) > 1e-3 for one in others)
    assert all(one.predicted <= 1 + 1e-9 for one in RESULTS if one.unit == "%")


def test_hiding_all_of_the_communication_bounds_what_was_published_from_above() -> None:
    bare, hidden = (one for one in RESULTS if one.study.startswith("Goyal"))
    assert bare.predicted < bare.published < hidden.predicted


def test_each_result_and_each_preset_says_where_it_was_published() -> None:
    sources = [one.address for one in (*RESULTS, *published.zero_2020())]
    sources += [address for cluster in CLUSTERS for _, address in cluster.sources]
    sources += [address for model in MODELS for _, address in model.sources]
    assert all(address.startswith("https://") for address in sources)
    assert {one.printed for one in RESULTS} >= {"90 %", "163 TFLOP/s", "77 %"}
    assert MODELS[0].workload(1e12).parameters == pytest.approx(7.5e9, rel=0.01)
