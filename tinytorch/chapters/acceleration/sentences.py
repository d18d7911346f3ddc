"""Sentences of the course on products, loops and copies, tested as it says them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tinytorch.chapters import sources
from tinytorch.perf.acceleration import products
from tinytorch.perf.measuring import Counted, Measurement, interleave, ratio
from tinytorch.report import Page, verdict_between

#: Rows, inputs and outputs of the layer that the course writes in loops and as a product; numbers that it adds.
_LAYER, _ADDED = (32, 128, 64), 1000
#: Elements of the list that the course copies three times.
_COPIED = 5000


@dataclass(frozen=True)
class Sentences:
    """Times of the course's own examples, each pair in turns.

    Attributes:
        layer: of "loops" over elements and of one "product".
        added: of a "loop" over elements and of one "sum".
        copied: of the "list" that is made, and of it "with copies".
    """

    layer: Mapping[str, Measurement]
    added: Mapping[str, Measurement]
    copied: Mapping[str, Measurement]


def study_sentences() -> Sentences:
    """Return the times of the course's examples, as it writes them."""
    plan: dict[str, Any] = {"repeats": 15, "at_most_seconds": 1.0, "warmup_seconds": 0.05}
    return Sentences(interleave(_layer, **plan), interleave(_added, **plan), interleave(_copied, **plan))


def _layer() -> dict[str, Callable[[], Any]]:
    rows, inner, columns = _LAYER
    draw = np.random.default_rng(0)
    x = draw.standard_normal((rows, inner), dtype=np.float32)
    weight = draw.standard_normal((inner, columns), dtype=np.float32)
    return {
        "loops": partial(products.array_element_loops, x, weight),
        "product": partial(products.vectorized_matmul, x, weight),
    }


def _added() -> dict[str, Callable[[], Any]]:
    a, b = np.random.default_rng(0).standard_normal((2, _ADDED))

    def loop() -> Any:
        result = np.zeros(_ADDED)
        for i in range(_ADDED):
            result[i] = a[i] + b[i]
        return result

    return {"loop": loop, "sum": lambda: a + b}


def _copied() -> dict[str, Callable[[], Any]]:
    def made() -> list[int]:
        return [i for i in range(_COPIED)]  # noqa: C416 - as the course writes it

    def with_copies() -> list[int]:
        return made().copy().copy().copy()

    return {"list": made, "with copies": with_copies}


def record_sentences(page: Page, found: Sentences) -> None:
    """Record what the examples took, and the claims on them and on what is counted.

    Args:
        page: where to; it knows the bytes of a cache tile by then.
        found: what `study_sentences` returned.
    """
    layer = ratio(found.layer["loops"], found.layer["product"], "loops over a product, 32 × 128 by 128 × 64, in time")
    page.number("layer-gain", layer)
    page.claim(
        "vectorization",
        statement="Vectorization makes code 2 to 5 times as fast.",
        quote="Built vectorized operations leveraging SIMD and optimized BLAS for 2-5× speedups",
        source=f"{sources.COURSE_ACCELERATION}, which sets a layer in loops beside one as a product",
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=verdict_between(layer, low=2.0, high=5.0),
        evidence="The course's own pair is 32 rows through a layer from 128 to 64; as a product they run {layer-gain} "
        "as fast as in loops. The test asks for a factor from 2 to 5.",
    )
    added = ratio(found.added["loop"], found.added["sum"], "a loop over one sum of arrays, 1,000 numbers, in time")
    page.number("added-gain", added)
    page.claim(
        "vectorization-ten",
        statement="A sum of two arrays of a thousand numbers is more than ten times as fast as a loop.",
        quote="assert results['speedup'] > 10",
        source=f"{sources.COURSE_ACCELERATION}, verify_vectorization_speedup(size=1000)",
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=verdict_between(added, low=10.0, strict=True),
        evidence="The sum is {added-gain} as fast as the course's loop. The test asks for more than 10.",
    )
    copies = ratio(found.copied["with copies"], found.copied["list"], "a list and three copies over the list, in time")
    page.number("copies-cost", copies)
    page.claim(
        "copies",
        statement="Copies are what takes the time.",
        quote="Copying operations: Major performance killers",
        source="TinyTorch course, module on profiling, of a list of 5,000 numbers and three copies of it",
        verdict=verdict_between(copies, low=2.0),
        evidence="With three copies it takes {copies-cost} the time of making the list. The test asks for twice, so "
        "that copies take half of it. In the product above a copy is what makes it faster.",
    )
    page.number("line-tile", 16, unit="numbers", what="float32 of a cache line")
    page.number("square-tile", 4 * 64 * 64, unit="B", what="bytes of a tile of 64 × 64 float32")
    page.claim(
        "tile-line",
        statement="A tile should be as large as a cache line.",
        quote="tile_size should match cache line size (typically 64 bytes)",
        source=f"{sources.COURSE_ACCELERATION}, whose tile_size counts rows and columns",
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=verdict_between(Counted(4 * 64 * 64, "B", "tile of 64 × 64"), high=64),
        evidence="Such a line holds {line-tile}; the course's tile of 64 rows and columns takes {square-tile}. "
        "What it has to match is a cache.",
        counted=True,
    )
    page.number(
        "product-intensity", Counted(1024 / 6, "FLOP/B", "2 n³ operations over 3 n² numbers of four bytes, n = 1,024")
    )
    moved = Counted(3 * 4 * 1024**2, "B", "three matrices 1,024 wide")
    page.claim(
        "product-intensity-course",
        statement="The arithmetic intensity of a product n wide is 2n/3.",
        quote="Arithmetic Intensity: 2N³ FLOPs / 3N² bytes = 2N/3",
        source=sources.COURSE_ACCELERATION,
        source_url=sources.COURSE_ACCELERATION_URL,
        verdict=verdict_between(moved, high=3 * 1024**2),
        evidence="3 n² are numbers, of four bytes each: the intensity is n/6, at 1,024 wide {product-intensity}.",
        counted=True,
    )
