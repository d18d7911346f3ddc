"""Checkpoints: a run that stops continues, on another number of ranks, to the weights of a run that did not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tests.perf.distributed.training_programs import falling, train_from_checkpoint, trained_alone
from tinytorch.perf.distributed.launch import launch


def test_a_restart_on_other_ranks_ends_where_an_uninterrupted_run_ends(tmp_path: Path) -> None:
    def run(ranks: int, folder: str, until: int, sharded: bool) -> dict[str, Any]:
        arguments = {"name": "gpt", "folder": folder, "until": until, "sharded": sharded}
        return launch(train_from_checkpoint, ranks, arguments, threads=1)[0]

    whole = trained_alone("gpt", "adamw", epochs=2, schedule=falling)
    first = run(3, str(tmp_path), 4, True)
    assert [path.name for path in tmp_path.iterdir()] == ["step-00000003"], "step 4 is lost"
    second = run(2, str(tmp_path), 7, False)
    third = run(1, str(tmp_path), 0, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["step-00000006", "step-00000008"]
    for name, expected in whole.items():
        if name != "bytes":
            np.testing.assert_allclose(
                np.asarray(third[name]), np.asarray(expected), rtol=1e-9, atol=1e-11, err_msg=name
            )
    assert np.asarray(third["losses"]).shape == (8,), "losses of the runs before are kept"
    assert 3 * float(first["bytes"]) < 1.1 * float(second["bytes"]), "a shard of three"
