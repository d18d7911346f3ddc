"""A program of two parts: one interprets Python, the other multiplies matrices. It is run, not imported."""

import time

import numpy as np

a = np.ones((64, 64), np.float32)


def plain() -> None:
    """Interpret a loop that never gives up the interpreter's lock by itself."""
    x = 1.0
    for _ in range(20_000):
        x = x * 0.5 + 1.0


def product() -> None:
    """Multiply two small matrices, for which NumPy gives up the lock."""
    _ = a @ a


def run(turns: int = 2_000) -> dict[str, float]:
    """Return the seconds of each part by the program's own clock, after so many turns of both."""
    spent = {"plain": 0.0, "product": 0.0}
    for _ in range(turns):
        for part in (plain, product):
            begun = time.perf_counter()
            part()
            spent[part.__name__] += time.perf_counter() - begun
    return spent
