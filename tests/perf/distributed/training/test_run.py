"""Checkpoints: a run that stops continues, on another number of ranks, to the weights of a run that did not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.perf.distributed.training.training_programs import (
    restart,
    train_from_checkpoint,
    trained_alone,
)
from tinytorch.perf.distributed.ranks.launch import RankError, launch
from tinytorch.perf.measuring.atomic_io import read_arrays, write_arrays


def test_after_a_death_other_numbers_of_ranks_end_where_an_uninterrupted_run_ends(tmp_path: Path) -> None:
    def run(ranks: int, until: int, dies: bool, sharded: bool) -> dict[str, Any]:
        arguments = {"name": "gpt", "folder": str(tmp_path), "until": until, "dies": dies, "sharded": sharded}
        return launch(train_from_checkpoint, ranks, arguments, threads=1)[0]

    whole = trained_alone("gpt", "adamw", epochs=2)
    with pytest.raises(RankError, match="SIGKILL"):
        run(3, 4, dies=True, sharded=True)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003"], "step 4 is lost"
    second = run(2, 7, dies=False, sharded=True)
    third = run(1, 0, dies=False, sharded=False)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000006", "step-00000008"]
    for name, expected in whole.items():
        np.testing.assert_allclose(third[name], expected, rtol=1e-9, atol=1e-11, err_msg=name)
    assert np.asarray(third["losses"]).shape == (8,), "losses of the runs before are kept"
    assert third["bytes"] / 2 <= second["bytes"] < 1.1 * third["bytes"] / 2, "a shard of two and the whole"


def test_a_training_goes_on_where_it_stopped_and_wrong_restarts_change_nothing(tmp_path: Path) -> None:
    found = launch(restart, 2, {"folder": str(tmp_path)}, threads=1)
    np.testing.assert_array_equal(found[0]["drawn"], np.random.default_rng(3).random(3))
    assert (found[0]["drawn"] != found[1]["drawn"]).all(), "each rank has masks of its own"
    for one in found:
        np.testing.assert_array_equal(one["continued"], one["whole"])
        assert "Dropout" in one["draws"]
        assert "betas" in one["rule"]
        assert "epochs" in one["plan"]
        assert "step-00000008" in one["damaged"]
        assert one["unchanged"]


def test_arrays_are_written_whole_or_the_file_before_stays(tmp_path: Path) -> None:
    write_arrays(tmp_path / "state.npz", {"file": np.arange(3), "a/b": np.ones((2, 2))})
    with pytest.raises(ValueError, match="Object"):
        write_arrays(tmp_path / "state.npz", {"file": np.array([None])})
    assert [path.name for path in tmp_path.iterdir()] == ["state.npz"]
    found = read_arrays(tmp_path / "state.npz")
    assert found.keys() == {"file", "a/b"}
    np.testing.assert_array_equal(found["file"], np.arange(3))
