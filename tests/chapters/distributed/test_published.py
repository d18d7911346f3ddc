"""Published results: as printed, exact where the papers give a formula, and never fitted."""

import pytest

from tinytorch.chapters.distributed import published
from tinytorch.chapters.distributed.published import published_results, zero_2020


def test_what_a_paper_gives_a_formula_for_is_met_to_its_digits() -> None:
    for stage in zero_2020():
        assert f"{round(stage['counted'].value, 1):g} GB" == stage["printed"]
    for run in published._MEGATRON_2021:
        billions = run.model(2048).workload(1.0).parameters / 1e9
        printed = float(run.name.split()[0].replace(",", ""))
        assert billions == pytest.approx(printed, abs=0.06 if printed < 1000 else 0.6), run.name
        assert run.data * run.tensor * run.pipeline == int(run.name.split()[-2].replace(",", "")), run.name
    for run in published._MEGATRON_2019:
        billions = run.model(1024).workload(1.0).parameters / 1e9
        assert billions == pytest.approx(float(run.name.split()[0]), abs=0.06), run.name
        assert run.data * run.tensor == int(run.name.split()[-2]), run.name


def test_only_the_first_run_of_a_study_is_given() -> None:
    rows = published_results()
    given = [row["name"] for row in rows if row["error"] is None]
    assert given == ["1.2 billion on 1 GPU", "1.7 billion on 32 GPUs"]
    assert {row["printed"] for row in rows} >= {"90 %", "163 TFLOP/s", "77 %"}


def test_links_take_as_long_however_many_gpus_share_the_training() -> None:
    rows = published.sharded_2021()
    for few, many in ((rows[1], rows[2]), (rows[3], rows[4])):
        assert many["links"].value == pytest.approx(few["links"].value)
        assert many["arithmetic"].value == pytest.approx(few["arithmetic"].value / 2)
        assert many["tokens"] == few["tokens"] // 2
    assert rows[0]["arithmetic"].value == pytest.approx(90, rel=0.05)
