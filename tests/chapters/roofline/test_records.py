"""What the page on rooflines would say of places that were made up: each number and word, on all of its sides."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.chapters.made_places import made_place
from tests.chapters.made_turns import said_in
from tests.perf.made_ceilings import made_ceilings, spread
from tinytorch.chapters.roofline import records as chapter
from tinytorch.core.ops import elementwise
from tinytorch.perf.events.stream import OpKey
from tinytorch.perf.measuring import Measurement
from tinytorch.perf.measuring.conditions import Conditions
from tinytorch.perf.roofline.bounds import Bottleneck
from tinytorch.perf.roofline.placement import Placed
from tinytorch.report import Page
from tinytorch.report.records import Json

MACHINE = made_ceilings(threads=1)
MIB = 2**20


def made(record: Callable[[Page], None]) -> dict[str, Json]:
    """Return by key what ``record`` adds to a page."""
    page = Page("roofline")
    before = len(page.records)
    record(page)
    return {one.key: one.to_json() for one in page.records[before:]}


def together(placed: Mapping[Any, Placed]) -> dict[Any, Placed]:
    """Return the places as those of one measurement in turns, with noise that differs from one to another."""
    names = {key: one.name for key, one in placed.items()}
    found = {}
    for index, (key, one) in enumerate(placed.items()):
        conditions = replace(
            one.seconds.conditions, interleaved_with=tuple(name for other, name in names.items() if other != key)
        )
        samples = tuple(np.roll(one.seconds.samples, index).tolist())
        found[key] = replace(one, seconds=Measurement(one.name, samples, "s", conditions))
    return found


def by_hand() -> dict[str, Placed]:
    """Return the page's operations by hand."""
    return {
        "add": made_place("add", MIB, 12 * MIB, 0.9),
        "matrix × vector": made_place("matrix × vector", 2 * MIB, 4 * MIB, 0.8),
        "matrix × matrix": made_place("matrix × matrix", 2048 * MIB, 12 * MIB, 0.9, Bottleneck.COMPUTE),
    }


def slow(of_roof: float = 0.1) -> dict[str, Placed]:
    """Return the operations that lie below every roof."""
    return {
        "GELU": made_place("GELU", 8 * MIB, 8 * MIB, of_roof, Bottleneck.BELOW),
        "tanh": made_place("tanh", MIB, 8 * MIB, 0.5, Bottleneck.OPEN),
        "softmax": made_place("softmax", 5 * MIB, 8 * MIB, 0.2, Bottleneck.BELOW),
    }


def test_the_ridge_of_each_level_is_peak_over_bandwidth() -> None:
    found = made(lambda page: chapter.show_ladder(page, MACHINE))
    assert (found["peak"]["value"], found["memory-bandwidth"]["value"]) == (100e9, 10e9)
    ridges = {key: record["value"] for key, record in found.items() if key.startswith("ridge-")}
    assert ridges == pytest.approx({"ridge-l1": 0.25, "ridge-l2": 1.0, "ridge-memory": 10.0})
    assert [row["ridge"]["value"] for row in found["ladder"]["rows"]] == pytest.approx([0.25, 1.0, 10.0])
    assert [row["holds"] and row["holds"]["value"] for row in found["ladder"]["rows"]] == [32 * 1024, MIB, None]


def test_the_data_of_the_page_come_from_the_innermost_level_that_holds_them() -> None:
    rows = made(lambda page: chapter.show_ladder(page, MACHINE))["sets"]["rows"]
    assert [(row["bytes"]["value"], row["slope"]) for row in rows] == [
        (48, "L1"),
        (4 * (1024**2 + 2 * 1024), "memory"),
        (12 * MIB, "memory"),
        (4 * (4096**2 + 2 * 4096), "memory"),
    ]
    assert [row["ridge"]["value"] for row in rows] == pytest.approx([0.25, 10, 10, 10])


@pytest.mark.parametrize(
    ("inner", "word", "why"),
    [
        ("memory", "memory", "fit there, and in no faster level"),
        ("L2", "L2 and memory", "fit into memory but not into L2"),
    ],
)
def test_the_word_for_a_level_says_why_it_is_one_or_lies_between_two(inner: str, word: str, why: str) -> None:
    one = by_hand()["add"]
    placed = replace(one, slope=replace(one.slope, inner=inner, outer="memory"))
    found = made(lambda page: chapter.record_by_hand(page, {"add": placed}))["level-add"]
    assert found["word"] == word
    assert why in found["because"]


def test_every_line_of_a_calculation_is_recorded() -> None:
    found = made(lambda page: chapter.show_asked(page, by_hand()))
    assert (found["flops-add"]["value"], found["bytes-add"]["value"]) == (MIB, 12 * MIB)
    assert found["intensity-add"]["value"] == pytest.approx(1 / 12)
    assert found["level-add"]["word"] == "memory"
    assert found["arithmetic-add"]["value"] == pytest.approx(MIB / 100e9)
    assert found["moving-add"]["value"] == found["least-add"]["value"] == pytest.approx(12 * MIB / 10e9)
    assert found["least-matrix-matrix"]["value"] == found["arithmetic-matrix-matrix"]["value"]
    assert {found[f"{line}-add"]["kind"] for line in ("arithmetic", "moving", "least")} == {"modelled"}
    roofs = {row["name"]: (row["slope"], row["bandwidth"]["value"]) for row in found["ops-roofs"]["rows"]}
    assert roofs["add"] == ("memory", pytest.approx(10e9))


def test_each_operation_has_its_numbers_and_its_word() -> None:
    found = made(lambda page: chapter.show_reached(page, by_hand()))
    assert (found["bound-matrix-matrix"]["word"], found["bound-add"]["word"]) == ("compute-bound", "memory-bound")
    assert found["of-roof-add"]["value"] == pytest.approx(0.9)
    assert found["of-peak-add"]["value"] == pytest.approx(0.9 / 120)
    assert found["time-matrix-vector"]["value"] == pytest.approx(4 * MIB / 10e9 / 0.8)
    assert "1,024 wide" in found["time-add"]["conditions"]["call"]
    assert len(found["ops"]["rows"]) == 3


def crossing(first: float, last: float, rows: int = 64) -> list[Placed]:
    """Return products of 1, 2, 16 and ``rows`` rows, whose first and last take so many seconds."""
    made = {1: first, 2: 2.5 * first, 16: 3.0, rows: last}
    places = {
        count: replace(
            one := made_place(f"{count} rows", 2 * count * MIB, 4 * MIB, 0.5),
            seconds=replace(spread(seconds, "s", 0.005), conditions=one.seconds.conditions),
        )
        for count, seconds in made.items()
    }
    return list(together(places).values())


@pytest.mark.parametrize(
    ("last", "rows", "word"),
    [
        (64 / 20, 20, "within a factor of two"),
        (64 / 38, 38, "within a factor of two"),
        (64 / 60, 60, "at more rows"),
        (64 / 40, 40, "open"),
        (64 / 5, 5, "at fewer rows"),
    ],
)
def test_the_crossing_is_where_one_row_and_a_row_of_many_meet(last: float, rows: float, word: str) -> None:
    """Weights of 4 MiB come from memory, whose ridge is at 10: predicted are 20 rows."""
    found = made(lambda page: chapter.record_crossing(page, {1024: crossing(1.0, last)}, MACHINE))
    assert (found["level-1024"]["word"], found["ridge-1024"]["value"]) == ("memory", pytest.approx(10))
    assert found["crossing-1024-predicted"]["value"] == pytest.approx(20)
    assert found["crossing-1024-measured"]["value"] == pytest.approx(rows, rel=0.02)
    assert said_in(found["crossing-1024-verdict"]) == word
    assert found["two-rows-1024"]["value"] == pytest.approx(2.5, rel=0.02)
    assert found["crossing-1024-copied"]["value"] == pytest.approx(2.5 * rows, rel=0.02)
    assert (found["crossing-1024-predicted"]["kind"], found["crossing-1024-measured"]["kind"]) == (
        "modelled",
        "measured",
    )
    assert found["intensity-last-1024"]["value"] == 32
    assert found["flops-16-rows"]["value"] == 32 * MIB


def test_the_crossing_is_drawn_with_both_predictions() -> None:
    found = made(lambda page: chapter.record_crossing(page, {1024: crossing(1.0, 2.0)}, MACHINE))
    series = {one["label"].split(", ")[1]: one for one in found["crossing"]["series"]}
    overlap, none = ([number["value"] for number in series[name]["numbers"]] for name in ("overlap", "no overlap"))
    arithmetic, traffic = np.array([2, 4, 32, 128]) * MIB / 100e9, 4 * MIB / 10e9
    assert overlap == pytest.approx(np.maximum(arithmetic, traffic).tolist())
    assert none == pytest.approx((arithmetic + traffic).tolist())
    assert {number["kind"] for number in series["overlap"]["numbers"]} == {"modelled"}


def additions(eight: float = 1.02) -> dict[int, Placed]:
    """Return additions whose calls cost a microsecond each; that of eight takes ``eight`` times that of four."""
    times = {4: 1.0, 8: eight, 1024: 1.2}
    return together(
        {
            count: replace(
                made_place(f"{count} numbers", count, 12 * count, 0.01, Bottleneck.OVERHEAD, "L1"),
                seconds=replace(spread(factor * 1.1e-6, "s", 0.002), conditions=Conditions(blas_threads=1)),
            )
            for count, factor in times.items()
        }
    )


def test_a_call_is_added_to_the_roof_of_an_addition() -> None:
    found = made(lambda page: chapter.record_additions(page, additions(), MACHINE))
    assert found["call-cost"]["value"] == pytest.approx(1e-6)
    assert found["addition-predicted"]["value"] == pytest.approx(1e-6 + 12 * 1024 / 400e9)
    assert found["doubled"]["value"] == pytest.approx(1.02, rel=0.01)
    assert found["bound-add-of-4-numbers"]["word"] == "overhead-bound"
    assert found["time-add-of-1024-numbers"]["value"] == pytest.approx(1.32e-6)
    # 1 µs is 33,333 numbers of L1, which holds 2,730; 8,333 of L2, which holds 87,381.
    assert (found["call-until"]["value"], found["level-call-until"]["word"]) == (pytest.approx(1e-6 * 100e9 / 12), "L2")


@pytest.mark.parametrize(("cost", "numbers"), [(5e-8, 5e-8 * 400e9 / 12), (1e-3, 1e-3 * 10e9 / 12)])
def test_the_size_where_calls_stop_to_count_is_of_the_level_that_holds_it(cost: float, numbers: float) -> None:
    assert chapter.until_bytes_take_as_long(spread(cost, "s"), MACHINE).median == pytest.approx(numbers)


def test_passes_calls_and_tanh_predict_a_gelu() -> None:
    found = made(lambda page: chapter.record_slow(page, slow(), MACHINE))
    # 17 arrays of 4 MiB at the bandwidth of L2, which holds three blocks; tanh takes twice its 8 MiB from memory.
    # Each of 8 steps is called for each of 64 blocks of 16,384 numbers.
    passes, tanh, every = 17 * 4 * MIB / 100e9, 2 * 8 * MIB / 10e9, 8 * 64 * 0.5e-6
    assert (found["level-block"]["word"], found["level-gelu"]["word"]) == ("L2", "memory")
    assert found["gelu-moved"]["value"] == 19 * 4 * MIB
    assert found["gelu-passes"]["value"] == pytest.approx(passes)
    assert (found["gelu-calls"]["value"], found["gelu-calls-time"]["value"]) == (512, pytest.approx(every))
    assert found["gelu-predicted"]["value"] == pytest.approx(passes + tanh + every)
    assert found["gelu-explained"]["value"] == pytest.approx((passes + tanh + every) / (10 * 8 * MIB / 10e9))
    assert found["bound-gelu"]["word"] == "below every roof"


class _Counting(np.ndarray[Any, Any]):
    """An array that counts the steps that NumPy takes with it, and the arrays that these read and write."""

    steps = arrays = 0

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = (), **kwargs: Any) -> Any:
        plain = [one.view(np.ndarray) if isinstance(one, _Counting) else one for one in inputs]
        _Counting.steps += 1
        _Counting.arrays += sum(isinstance(one, np.ndarray) for one in plain) + 1
        getattr(ufunc, method)(*plain, out=tuple(one.view(np.ndarray) for one in out), **kwargs)
        return out[0]


def test_a_gelu_takes_as_many_steps_as_the_page_says() -> None:
    _Counting.steps = _Counting.arrays = 0
    x, output, scratch = (np.ones(8, np.float32).view(_Counting) for _ in range(3))
    elementwise._gelu_block(x, output, None, scratch)
    assert (_Counting.steps, _Counting.arrays) == (chapter.GELU_STEPS, chapter.GELU_ARRAYS)


def squares() -> dict[int, Placed]:
    """Return products of square matrices, of which the small one waits for its call."""
    return {
        64: made_place("64 wide", 2 * 64**3, 12 * 64**2, 0.1, Bottleneck.OVERHEAD, "L2"),
        2048: made_place("2048 wide", 2 * 2048**3, 12 * 2048**2, 0.9, Bottleneck.COMPUTE),
    }


def test_products_have_a_row_for_each_size() -> None:
    found = made(lambda page: chapter.record_sizes(page, squares()))
    small, large = found["sizes"]["rows"]
    assert (small["width"], large["width"]) == ("64", "2,048")
    assert small["intensity"]["value"] == pytest.approx(64 / 6)
    assert large["of_peak"]["value"] == pytest.approx(0.9)
    assert large["rate"]["value"] == pytest.approx(90e9)
    assert large["bytes"]["value"] == pytest.approx(90e9 / (2048 / 6))
    assert (found["bound-64"]["word"], found["bound-2048"]["word"]) == ("overhead-bound", "compute-bound")


def test_the_roofline_has_a_point_for_each_operation() -> None:
    found = made(lambda page: chapter.draw_roofline(page, by_hand() | slow(), MACHINE))
    assert len(found["roofline"]["series"]) == 2 + 6


def by_op(softmax: float = 0.9) -> dict[OpKey, Placed]:
    """Return three ops: one is farthest from its roof, another has most time above it, and softmax is as given."""
    return {
        ("gelu", "forward", "numpy"): made_place("gelu", MIB, MIB, 0.1),
        ("linear", "forward", "numpy"): made_place("linear", 1024 * MIB, 8 * MIB, 0.5, Bottleneck.COMPUTE),
        ("softmax", "forward", "numpy"): made_place("softmax", MIB, MIB, softmax),
    }


def answers(softmax: float = 0.9) -> dict[str, Json]:
    """Return the records of the answers."""
    return made(lambda page: chapter.record_answers(page, MACHINE, by_hand() | slow(), by_op(softmax)))


def test_answers_are_what_the_model_of_the_roofline_says() -> None:
    found = answers()
    assert (found["q-gelu-intensity"]["value"], found["q-gelu-ridge"]["value"]) == (1.0, pytest.approx(10))
    assert found["q-rows"]["value"] == pytest.approx(5), "2 r operations on one byte: the ridge of 10 over 2"
    assert found["q-width"]["value"] == pytest.approx(40)
    assert found["q-gain-vector"]["value"] == pytest.approx(2)
    assert found["q-gain-matrix"]["value"] == pytest.approx(1)
    read = 4 * (124_439_808 - 1023 * 768)
    assert (found["gpt2-step-bytes"]["value"], found["gpt2-bandwidth"]["value"]) == (read, 10e9)
    assert found["gpt2-step"]["value"] == pytest.approx(read / 10e9)
    assert found["gpt2-step-flops"]["value"] == 2 * (144 * 768**2 + 50_257 * 768) + 4 * 12 * 768
    assert found["gpt2-arithmetic"]["value"] == pytest.approx(read / 2 / 100e9, rel=2e-3), "half an operation a byte"
    assert found["gpt2-rows"]["value"] == pytest.approx(20, rel=2e-3), "as for any weights: twice the ridge of 10"
    assert found["q-farthest"]["word"] == "gelu"
    assert found["q-most-to-gain"]["word"] == "linear"
    assert found["q-most-seconds"]["value"] == pytest.approx(1024 * MIB / 100e9)


def test_words_name_all_that_the_intervals_cannot_tell_from_the_first() -> None:
    """Softmax and GELU, of as many operations and bytes, are known to a hundredth each."""
    assert answers(softmax=0.11)["q-farthest"]["word"] == "gelu"
    assert answers(softmax=0.1005)["q-farthest"]["word"] == "gelu or softmax"
    assert answers(softmax=0.09)["q-farthest"]["word"] == "softmax"
    # GELU and softmax take MIB / 10e9 s at the roof. What is 1024 MIB / 100e9 s above it: linear.
    alike = answers(softmax=1 / (102.4 * 1.005 + 1))
    assert alike["q-most-to-gain"]["word"] == "softmax or linear"
    assert answers(softmax=1 / 110)["q-most-to-gain"]["word"] == "softmax"


def test_time_above_the_roof_has_the_intervals_of_both() -> None:
    found = answers()["q-most-seconds"]
    time = 2 * 1024 * MIB / 100e9
    assert (found["interval"]["low"], found["interval"]["high"]) == pytest.approx((0.99 * time - time / 2, 0.51 * time))


def wholes() -> dict[tuple[str, int], Placed]:
    """Return a pass of the MLP that waits for its calls, and one of the GPT."""
    return {
        ("mlp", 1): made_place("MLP, 1", MIB, 4 * 1024, 0.2, Bottleneck.OVERHEAD, "L1"),
        ("gpt", 64): made_place("GPT, 64", 2048 * MIB, 64 * MIB, 0.25),
    }


def test_whole_models_have_a_word_a_share_and_a_least_time_by_batch() -> None:
    found = made(lambda page: chapter.record_models(page, wholes()))
    assert (found["mlp-1-bound"]["word"], found["gpt-64-bound"]["word"]) == ("overhead-bound", "memory-bound")
    assert found["gpt-64-of-roof"]["value"] == found["gpt-64-reached"]["value"] == pytest.approx(0.25)
    assert found["least-gpt-64"]["value"] == pytest.approx(2048 * MIB / 100e9)
    assert found["time-gpt-64"]["value"] == pytest.approx(4 * 2048 * MIB / 100e9)
    assert found["time-gpt-64"]["conditions"]["call"].startswith("forward pass of the zoo's GPT, batch of 64")
    row = found["models"]["rows"][1]
    assert (row["name"], row["bound"]["word"]) == ("GPT, 64", "memory-bound")
    assert [row[key]["value"] for key in ("least", "calls", "seconds", "reached")] == pytest.approx(
        [2048 * MIB / 100e9, 1e-6, 4 * 2048 * MIB / 100e9, 0.25]
    )
    assert (row["least"]["kind"], row["calls"]["kind"], row["seconds"]["kind"]) == ("modelled", "modelled", "measured")


def test_the_time_of_the_mlp_is_calculated_line_by_line() -> None:
    found = made(lambda page: chapter.record_models(page, wholes()))
    arithmetic = MIB / 100e9
    assert (found["flops-mlp-1"]["value"], found["bytes-mlp-1"]["value"]) == (MIB, 4 * 1024)
    assert found["arithmetic-mlp-1"]["value"] == found["least-mlp-1"]["value"] == pytest.approx(arithmetic)
    assert found["moving-mlp-1"]["value"] == pytest.approx(4 * 1024 / 400e9)
    assert (found["calls-mlp-1"]["value"], found["calls-time-mlp-1"]["value"]) == (1, pytest.approx(1e-6))
    assert found["predicted-mlp-1"]["value"] == pytest.approx(arithmetic + 1e-6)
    assert found["explained-mlp-1"]["value"] == pytest.approx((arithmetic + 1e-6) / (5 * arithmetic))
    assert found["predicted-mlp-1"]["kind"] == "modelled"


def test_operations_of_the_gpt_have_a_row_each_with_prediction_and_measurement() -> None:
    parts = {
        "linear": made_place("linear", 1024 * MIB, 8 * MIB, 0.5, Bottleneck.COMPUTE),
        "rest": made_place("rest", 2 * MIB, 2 * MIB, 0.1),
    }
    found = made(lambda page: chapter.show_gpt(page, by_op(), parts))
    rows = {row["name"]: row for row in found["gpt-ops"]["rows"]}
    assert list(rows) == ["gelu", "linear", "softmax"]
    least = 1024 * MIB / 100e9
    assert [rows["linear"][key]["value"] for key in ("operations", "bytes", "least", "seconds", "of_roof")] == (
        pytest.approx([1024 * MIB, 8 * MIB, least, 2 * least, 0.5])
    )
    assert (found["flops-linear"]["value"], found["intensity-linear"]["value"]) == (1024 * MIB, 128)
    assert found["arithmetic-linear"]["value"] == pytest.approx(least)
    assert found["time-linear"]["value"] == pytest.approx(2 * least)
    assert found["least-rest"]["value"] == pytest.approx(2 * MIB / 10e9)
    assert (found["of-roof-linear"]["value"], found["of-roof-rest"]["value"]) == pytest.approx((0.5, 0.1))
