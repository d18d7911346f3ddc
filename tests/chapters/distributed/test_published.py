"""Published results: as printed, exact where the papers give a formula, and never fitted."""

from dataclasses import replace

import pytest

from tinytorch.chapters.distributed import published
from tinytorch.chapters.distributed.published import as_printed, published_results, zero_2020
from tinytorch.perf.measuring.judge import Verdict

RESULTS = published_results()


def test_what_a_paper_gives_a_formula_for_is_met_to_its_digits() -> None:
    stages = zero_2020()
    assert [one.printed for one in stages] == ["120 GB", "31.4 GB", "16.6 GB", "1.9 GB"]
    for one, expected in zip(stages, (16, 4 + 12 / 64, 2 + 14 / 64, 16 / 64), strict=True):
        assert one.counted.value == pytest.approx(expected * 7.5)
    assert as_printed(*stages).verdict is Verdict.SUPPORTED
    assert as_printed(replace(stages[1], printed="31.5 GB")).verdict is Verdict.REFUTED
    for run in published._MEGATRON_2021:
        billions = run.model(2048).workload(1.0).parameters / 1e9
        printed = float(run.name.split()[0].replace(",", ""))
        assert billions == pytest.approx(printed, abs=0.06 if printed < 1000 else 0.6), run.name
        assert run.data * run.tensor * run.pipeline == int(run.name.split()[-2].replace(",", "")), run.name
    for run in published._MEGATRON_2019:
        billions = run.model(1024).workload(1.0).parameters / 1e9
        assert billions == pytest.approx(float(run.name.split()[0]), abs=0.06), run.name
        assert run.data * run.tensor == int(run.name.split()[-2]), run.name


def test_only_the_first_of_a_study_is_given_and_no_prediction_is_made_to_meet_another() -> None:
    given = [one for one in RESULTS if one.given]
    assert [one.name for one in given] == ["1.2 billion on 1 GPU", "1.7 billion on 32 GPUs"]
    assert all(one.error is None for one in given)
    assert all(one.predicted.value == pytest.approx(one.published) for one in given)
    errors = [abs(one.error.value) for one in RESULTS if one.error]
    assert {one.printed for one in RESULTS} >= {"90 %", "163 TFLOP/s", "77 %"}
    middle, worst = published.errors()
    assert worst.value == max(errors) > middle.value
    studies = published.studies()
    assert sum(study.runs for study in studies) == len(errors)
    assert [study.study for study in studies] == list(dict.fromkeys(one.study for one in RESULTS))
    assert max(study.worst.value for study in studies) == worst.value


def test_two_terms_take_the_bias_from_the_rows_that_they_were_not_made_to_meet() -> None:
    rows = [one for one in RESULTS if one.study.startswith("Narayanan")]
    assert [one.refined_error is None for one in rows] == [True, *[False] * 8, True]
    before, after = published.refined_errors()
    assert after.value < before.value / 2


def test_the_optimum_makes_both_kinds_of_messages_equally_long() -> None:
    for run, found in zip(published._MEGATRON_2021, published.optima(), strict=False):
        data, tensor, tokens = found["data"].value, found["tensor"].value, run.examples * 2048
        gathered = 3 * 2 * 12 * run.width**2 / tensor / 25e9
        summed = 4 * 2 * 2 * tokens / data * run.width / 300e9
        assert gathered == pytest.approx(summed)
        assert data * tensor == pytest.approx(run.data * run.tensor)


def test_links_take_as_long_however_many_gpus_share_the_training() -> None:
    rows = published.sharded_2021()
    for few, many in ((rows[1], rows[2]), (rows[3], rows[4])):
        assert many["links"].value == pytest.approx(few["links"].value)
        assert many["arithmetic"].value == pytest.approx(few["arithmetic"].value / 2)
        assert many["tokens"] == few["tokens"] // 2
    assert rows[0]["arithmetic"].value == pytest.approx(90, rel=0.05)
