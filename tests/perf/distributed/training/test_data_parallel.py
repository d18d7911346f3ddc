"""Training on two and four ranks against the same training in one process."""

import numpy as np
import pytest

from tests.perf.distributed.training.training_programs import PROBLEMS, WAYS, train_in_all_ways, trained_alone
from tests.perf.distributed.training.uneven_programs import train_uneven, trained_uneven_alone
from tinytorch.perf.distributed.ranks.launch import launch


@pytest.mark.parametrize("ranks", [2, 4])
def test_ranks_train_what_one_process_trains(ranks: int) -> None:
    found = launch(train_in_all_ways, ranks, threads=1)
    for name in PROBLEMS:
        for way, optimizer, _ in WAYS:
            alone = trained_alone(name, optimizer)
            for rank, one in enumerate(found):
                for key, expected in alone.items():
                    made, said = one[f"{name} {way}/{key}"], f"{name} {way} {rank} {key}"
                    np.testing.assert_allclose(made, expected, rtol=1e-9, atol=1e-11, err_msg=said)
                    np.testing.assert_array_equal(made, found[0][f"{name} {way}/{key}"], err_msg=said)


def test_parameters_that_some_ranks_do_not_use_are_trained_by_those_that_do() -> None:
    expected = trained_uneven_alone()
    for one in launch(train_uneven, 2, threads=1):
        for name, array in expected.items():
            np.testing.assert_allclose(one[name], array, rtol=1e-5, atol=1e-6, err_msg=name)
        assert "no gradient" in one["told"]
        assert "the loss became nan" in one["told"] or "the loss became inf" in one["told"]
