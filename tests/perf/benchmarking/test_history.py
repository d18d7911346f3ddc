"""Change points: found where a level moved, not where none did, and told with the commit that moved it."""

from pathlib import Path

import numpy as np
import pytest
from scipy.spatial.distance import cdist

from tests.perf.benchmarking.made import performance, results
from tinytorch.perf.benchmarking import change_points, history_of, save_results
from tinytorch.perf.benchmarking.change_points import FEWEST, _energies
from tinytorch.report.history_report import html_history


def test_energies_are_those_of_the_definition() -> None:
    x = np.random.default_rng(0).normal(size=11)
    distances = np.abs(x[:, None] - x[None, :])
    for index, energy in enumerate(_energies(distances)):
        m = FEWEST + index
        a, b = x[:m, None], x[m:, None]
        between, left, right = cdist(a, b).mean(), cdist(a, a).mean(), cdist(b, b).mean()
        assert energy == pytest.approx(m * (11 - m) / 11 * (2 * between - left - right))


def test_levels_that_moved_are_found_where_they_did() -> None:
    draw = np.random.default_rng(1)
    levels = np.repeat([0.0, 1.0, 0.4], [12, 15, 10])
    assert change_points(levels + 0.1 * draw.normal(size=37)) == (12, 27)


def test_without_a_change_one_is_told_as_seldom_as_the_level_says() -> None:
    draw = np.random.default_rng(2)
    told = sum(bool(change_points(draw.standard_t(3, size=12), level=0.05, seed=seed)) for seed in range(20))
    assert told <= 4, "of 20 series at 5 %, more than 4 have a chance of 0.3 %"
    assert change_points(np.ones(20)) == ()
    assert change_points([1.0, 2.0]) == ()


def test_the_page_names_the_commit_that_moved_the_time(tmp_path: Path) -> None:
    for index in range(16):
        seconds = 1e-3 if index < 9 else 1.3e-3
        made = results(
            performance("a", seconds, seed=index, processes=5),
            created=f"2026-01-{index + 1:02d}T00:00:00+00:00",
            commit=f"{index:02d}" * 20,
        )
        save_results(made, tmp_path / f"{(index * 7) % 16}.json")
    made_history = history_of(tmp_path)
    (sentence,) = made_history.sentences()
    assert "a at batch 1 takes 1.3 times as long" in sentence
    assert "2026-01-10" in sentence
    assert "commit 090909090909" in sentence
    page = html_history(made_history)
    assert page.count("090909090909") >= 3
    assert "<svg" in page
    assert "http" not in page.replace("http://www.w3.org/", "")


def test_machines_are_not_mixed(tmp_path: Path) -> None:
    one, other = results(performance("a")), results(performance("a"))
    other.identity["cpu"] = "another"
    save_results(one, tmp_path / "one.json")
    save_results(other, tmp_path / "other.json")
    assert [len(each.runs) for each in history_of(tmp_path).histories] == [1, 1]


def test_a_folder_without_results_or_with_a_broken_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="must hold files of results"):
        history_of(tmp_path)
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(ValueError, match=r"broken\.json"):
        history_of(tmp_path)


@pytest.mark.parametrize("level", [0.0, 1.0])
def test_a_level_out_of_range_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match="level"):
        change_points([1.0, 2.0], level=level)
