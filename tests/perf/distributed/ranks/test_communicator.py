"""What ranks say to one another, against the sums and joins of NumPy."""

import sys

import numpy as np
import pytest

from tests.perf.distributed.ranks import programs
from tinytorch.perf.distributed.ranks import collective_ops
from tinytorch.perf.distributed.ranks import launch as launching
from tinytorch.perf.distributed.ranks.collective_ops import MPIMissingError, load_mpi
from tinytorch.perf.distributed.ranks.launch import launch
from tinytorch.perf.host.pinned_threads import allowed_cores, may_pin, usable_cores

RANKS = 3
WHOLE = 8 * 2 * RANKS
#: Op, bytes of the message, and additions of a rank at least.
EVENTS = [
    *[("all_reduce", WHOLE, 4)] * 2,
    *[("begin_all_reduce", WHOLE, 4), ("wait", 0, 0)],
    *[("begin_reduce_scatter", WHOLE, 4), ("wait", 0, 0)],
    *[("begin_all_gather", RANKS * WHOLE, 0), ("wait", 0, 0)] * 2,
    ("broadcast", 8, 0),
]


def test_each_call_gives_what_its_name_says_and_is_an_event_with_its_bytes() -> None:
    found = launch(programs.talks, RANKS, threads=1)
    rows = np.array([np.arange(2.0 * RANKS) + rank for rank in range(RANKS)])
    for rank, one in enumerate(found):
        for name in ("all_reduce", "all_reduce in place", "begun all_reduce"):
            np.testing.assert_array_equal(one[name], rows.sum(axis=0), err_msg=name)
        np.testing.assert_array_equal(one["begun reduce_scatter"], rows.sum(axis=0).reshape(RANKS, 2)[rank])
        for name in ("begun all_gather", "all_gather in place"):
            np.testing.assert_array_equal(one[name], rows, err_msg=name)
        assert one["broadcast"] == RANKS - 1
        before = (rank - 1) % RANKS
        assert one["around"].dtype == np.int16
        np.testing.assert_array_equal(one["around"], np.full((before + 1, 2, 1), before))
        around = [["begin_send", 4 * (rank + 1), 0], ["receive", 4 * (before + 1), 0], ["wait", 0, 0]]
        assert one["events"] == [*map(list, EVENTS), *around, ["barrier", 0, 0]]
        assert one["exchange"] == [{"rank": other, "text": "ä" * other} for other in range(RANKS)]
        assert one["groups"] == ["world.1", 2 if rank % 2 == 0 else 1, "world"]
        assert one["oversubscribed"] == (len(usable_cores()) < RANKS)


def test_ranks_are_kept_on_a_core_each_only_where_they_may_be(monkeypatch: pytest.MonkeyPatch) -> None:
    allowed = allowed_cores()
    found = [one["cores"] for one in launch(programs.cores, 2, threads=1, pinned=True)]
    assert found == ([[allowed[rank % len(allowed)]] for rank in range(2)] if may_pin() else [allowed] * 2)
    monkeypatch.setattr(launching, "may_pin", lambda: False)
    assert [one["cores"] for one in launch(programs.cores, 2, threads=1, pinned=True)] == [allowed] * 2


def test_wrong_calls_are_refused_on_every_rank() -> None:
    words = {
        "dtype": "i1, u1", "truth": "uint8", "truth, begun": "uint8", "truth, scattered": "uint8",
        "byte order": ">f4", "room": "float64", "overlap": "overlap", "part": "(3,)",
        "axis": "array[None]", "root": "root", "self": "another rank", "order": "C order", "axes": "8 axes",
        "shapes": "shape of weight", "settings": "bucket_bytes", "rates": "lr",
    }  # fmt: skip
    for one in launch(programs.refusals, 2, threads=1):
        assert one.keys() == words.keys()
        assert [name for name, word in words.items() if word not in one[name]] == []
        assert "[[4, 2], 'float32'] on rank 0 (" in one["shapes"]


@pytest.mark.parametrize(
    ("call", "what"),
    [
        *[(call, what) for call in ("all_reduce", "broadcast") for what in ("length", "shape", "dtype")],
        *[(f"begin_{call}", "dtype") for call in ("all_reduce", "reduce_scatter", "all_gather")],
        ("begin_all_gather", "length"),
        ("broadcast", "root"),
        ("all_reduce", "call"),
    ],
)
def test_ranks_that_give_different_arrays_are_refused_by_name(call: str, what: str) -> None:
    """Each says what the rank before it gives, and what it gives itself."""
    differ = {
        "dtype": ("float32", "int32"),
        "length": ("(4,)", "(6,)"),
        "shape": ("(4,)", "(2, 2)"),
        "root": ("root 0", "root 1"),
        "call": ("all_reduce", "broadcast"),
    }
    for one in launch(programs.disagreement, 2, {"call": call, "what": what}, threads=1):
        assert [word for word in ("rank 0 (", "rank 1 (", *differ[what]) if word not in one["told"]] == []


def test_without_mpi_one_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    load_mpi.cache_clear()
    with pytest.raises(MPIMissingError, match="install"):
        collective_ops.load_mpi()
