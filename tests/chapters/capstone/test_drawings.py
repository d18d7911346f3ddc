"""The capstone's drawing has each step of the method, and fits its place."""

from __future__ import annotations

from tinytorch.chapters.capstone import drawings


def test_every_step_and_both_ways_out_are_drawn() -> None:
    svg = drawings.method().svg(key="method", alt="made")
    places = [svg.index(f">{name}<") for name, _, _ in drawings.STEPS]
    assert places == sorted(places)
    assert "a step passes" in svg
    assert "nothing passes" in svg
