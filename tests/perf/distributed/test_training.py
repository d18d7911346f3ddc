"""Batches, buckets, training on ranks and restarts, against the same training in one process."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.perf.distributed.training_programs import (
    PROBLEMS,
    WAYS,
    restart,
    train_from_checkpoint,
    train_in_all_ways,
    train_uneven,
    trained_alone,
    trained_uneven_alone,
)
from tinytorch.core.module import Parameter
from tinytorch.perf.distributed.ranks.launch import RankError, launch
from tinytorch.perf.distributed.training.batches import ShardedBatches
from tinytorch.perf.distributed.training.updates import bucketed


def sharded(examples: int, batch_size: int, size: int, seed: int) -> list[ShardedBatches]:
    arrays = np.arange(examples), 2 * np.arange(examples)
    return [ShardedBatches(*arrays, batch_size=batch_size, rank=rank, size=size, seed=seed) for rank in range(size)]


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 5), st.integers(0, 9), st.integers(0, 3))
def test_parts_are_disjoint_cover_everything_and_make_the_same_batches_for_any_number_of_ranks(
    examples: int, batch_size: int, size: int, seed: int, epoch: int
) -> None:
    assume(min(batch_size, examples, examples % batch_size or batch_size) >= size)
    ranks = sharded(examples, batch_size, size, seed)
    alone = list(sharded(examples, batch_size, 1, seed)[0].epoch(epoch))
    together = [list(rank.epoch(epoch)) for rank in ranks]
    assert {len(batches) for batches in together} == {len(ranks[0])} == {-(-examples // batch_size)}
    for step, (inputs, targets) in enumerate(alone):
        parts = [batches[step] for batches in together]
        np.testing.assert_array_equal(np.concatenate([part[0].data for part in parts]), inputs.data)
        np.testing.assert_array_equal(np.concatenate([part[1].data for part in parts]), targets.data)
        lengths = [len(part[0]) for part in parts]
        assert max(lengths) - min(lengths) <= 1
    seen = np.concatenate([inputs.data for inputs, _ in alone])
    np.testing.assert_array_equal(np.sort(seen), np.arange(examples))


def test_each_epoch_has_an_order_of_its_own_and_can_be_entered_anywhere() -> None:
    (batches,) = sharded(30, 4, 1, 7)
    orders = [np.concatenate([inputs.data for inputs, _ in batches.epoch(epoch)]) for epoch in (0, 1, 0)]
    assert (orders[0] != orders[1]).any()
    np.testing.assert_array_equal(orders[0], orders[2])
    later = [inputs.data for inputs, _ in batches.epoch(1, first=5)]
    np.testing.assert_array_equal(np.concatenate(later), orders[1][20:])
    (other,) = sharded(30, 4, 1, 8)
    assert (other.order(0) != batches.order(0)).any()


def test_batches_that_leave_a_rank_without_an_example_are_refused() -> None:
    with pytest.raises(ValueError, match="example"):
        sharded(9, 4, 2, 0)
    with pytest.raises(ValueError, match="batch_size"):
        sharded(2, 8, 3, 0)
    with pytest.raises(ValueError, match="rank"):
        ShardedBatches(np.arange(4), batch_size=2, rank=2, size=2)
    with pytest.raises(ValueError, match="length"):
        ShardedBatches(np.arange(4), np.arange(5), batch_size=2, rank=0, size=2)


SHAPES = st.lists(
    st.tuples(st.integers(1, 4), st.integers(1, 5), st.sampled_from(["f4", "f8"])), min_size=1, max_size=8
)


@given(SHAPES, st.integers(1, 200), st.integers(1, 5))
def test_every_parameter_lies_in_one_bucket_of_its_dtype_and_shards_cover_it(
    shapes: list[tuple[int, int, str]], nbytes: int, ranks: int
) -> None:
    parameters = [Parameter(np.zeros((rows, columns), kind)) for rows, columns, kind in shapes]
    buckets = bucketed(parameters, nbytes, ranks)
    assert [id(p) for bucket in buckets for p in bucket.parameters] == [id(p) for p in reversed(parameters)]
    for bucket in buckets:
        assert {parameter.dtype for parameter in bucket.parameters} == {bucket.dtype}
        assert bucket.length % ranks == 0
        assert bucket.length - sum(parameter.size for parameter in bucket.parameters) in range(ranks)
        assert sum(parameter.nbytes for parameter in bucket.parameters[:-1]) < nbytes, "closed as soon as it is full"
        flat = np.arange(bucket.length, dtype=bucket.dtype)
        seen = np.concatenate([part.ravel() for _, part in bucket.views(flat)])
        np.testing.assert_array_equal(seen, flat[: seen.size])
        assert all(part.shape == parameter.shape for parameter, part in bucket.views(flat))
        shards = [bucket.shard(flat, rank, ranks) for rank in range(ranks)]
        np.testing.assert_array_equal(np.concatenate(shards), flat)


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
