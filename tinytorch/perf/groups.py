"""Which events of a run belong together: those of one op, and those of one module with what is inside it."""

from __future__ import annotations

from collections.abc import Iterable

from tinytorch.perf.events import Profile

#: Op, phase and implementation.
OpKey = tuple[str, str, str]


def op_groups(profile: Profile) -> dict[OpKey, list[int]]:
    """Return the positions of the events of each op, phase and implementation, in order of first appearance."""
    groups: dict[OpKey, list[int]] = {}
    for index, event in enumerate(profile.events):
        groups.setdefault((event.op, event.phase, event.implementation), []).append(index)
    return groups


def module_classes(profile: Profile) -> dict[str, str]:
    """Return the class of each module that ran or whose backward ran, by path, each before those in it.

    The class is "" where the module's forward was not part of the run; the path "" is what ran outside modules.
    """
    classes: dict[str, str] = {}
    for span in profile.spans:
        classes.setdefault(span.path, span.module)
    for event in profile.events:
        classes.setdefault(event.path, "")
    return {path: classes[path] for path in _outer_first(classes)}


def layer_groups(profile: Profile) -> dict[str, list[int]]:
    """Return the positions of the events of each module and the modules in it, by path, each before those in it."""
    paths = [event.path for event in profile.events]
    return {
        path: [i for i, other in enumerate(paths) if (inside(other, path) if path else other == path)]
        for path in module_classes(profile)
    }


def inside(path: str, outer: str) -> bool:
    """Return whether ``path`` is ``outer`` or a module in it."""
    return path == outer or path.startswith(f"{outer}.")


def _outer_first(paths: Iterable[str]) -> list[str]:
    """Return paths so that each follows the one that holds it, else in the order given."""
    given = list(paths)
    order: list[str] = []

    def visit(path: str) -> None:
        order.append(path)
        inner = [other for other in given if path and other != path and inside(other, path)]
        for child in inner:
            if child not in order and not any(o != child and inside(child, o) for o in inner):
                visit(child)

    for path in given:
        if path not in order and not any(other and other != path and inside(path, other) for other in given):
            visit(path)
    return order
