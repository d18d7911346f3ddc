"""What pages train is among the steps of the preparation: both are run here with a training that does nothing."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jupytext  # type: ignore[import-untyped]
import numpy as np
import pytest

from scripts.building.preparation import needs_of
from tinytorch import models
from tinytorch.chapters.preparation import NEEDS, STEPS, make, steps_of
from tinytorch.chapters.quantization import retrained
from tinytorch.core.layers import Linear
from tinytorch.core.module import Module
from tinytorch.perf import compression as perf_compression
from tinytorch.perf.benchmarking import zoo
from tinytorch.perf.compression import fine_tuning

BOOK = Path(__file__).resolve().parents[2] / "book"


def cells_with(page: str, *words: str) -> list[str]:
    """Return the code of the page's first cell, which imports, and of those that have one of the words."""
    notebook = jupytext.read(BOOK / f"{page}.md")
    first, *others = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    return [first, *(code for code in others if any(word in code for word in words))]


def weights_of(model: Module) -> str:
    digest = hashlib.sha256()
    for key, tensor in model.named_parameters():
        digest.update(f"{key} {tensor.shape}".encode() + np.ascontiguousarray(tensor.data).tobytes())
    return digest.hexdigest()


def untrained(name: str, seed: int = 0) -> Module:
    return models.entry(name).make(seed).eval()


@pytest.fixture
def no_training(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Let models of the zoo be untrained, and return the list of all that is asked to be trained on."""
    asked: list[Any] = []

    def trained_on(name: str, model: Module, epochs: int, **how: Any) -> Module:
        teacher = how.pop("teacher", None)
        taught = None if teacher is None else weights_of(teacher)
        asked.append((name, weights_of(model), epochs, tuple(sorted(how.items())), taught))
        return model

    def rounded(name: str, plan: object, **how: Any) -> Module:
        asked.append((name, repr(plan), tuple(sorted(how.items()))))
        return untrained(name)

    def train_together(name: str, networks: Sequence[Module], epochs: int, **how: Any) -> None:
        teachers = how.pop("teachers", None) or [None] * len(networks)
        for network, teacher in zip(networks, teachers, strict=True):
            trained_on(name, network, epochs, **how, teacher=teacher)

    monkeypatch.setattr(models, "trained", untrained)
    monkeypatch.setattr(fine_tuning, "train_together", train_together)
    monkeypatch.setattr(fine_tuning, "trained_on", trained_on)
    monkeypatch.setattr(retrained, "retrained", rounded)
    return asked


def prepared_for(page: str, asked: list[Any], start: str) -> set[Any]:
    """Return what the steps of the page whose names begin so ask to be trained on."""
    asked.clear()
    for step in steps_of(needs_of(BOOK.parent, [page])):
        if step.name.startswith(start) or start in step.name:
            make(step.name)
    return set(asked)


def test_all_that_the_page_on_compression_trains_on_is_prepared(
    no_training: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from tinytorch.chapters.compression import accuracy, speed

    def compressed(model: Module, plan: dict[str, Any], *_: Any, **__: Any) -> None:
        plan["fine_tune"](perf_compression.structured_prune(model, plan["structured_prune"]))

    def nothing(*_: Any, **__: Any) -> tuple[()]:
        return ()

    monkeypatch.setattr(accuracy, "cut_at", nothing)
    monkeypatch.setattr(speed, "model_speedups", nothing)
    monkeypatch.setattr(perf_compression, "compress_model", compressed)
    first, *cells = cells_with("compression", "trained_on(", "pruned = magnitude_prune")
    space: dict[str, Any] = {"images": None, "np": np, "Linear": Linear, "lost": nothing, "in_blocks": nothing}
    space |= {name: getattr(perf_compression, name) for name in ("structured_prune", "sparse_model")}
    exec(first, space)
    for code in cells:
        exec(code, space)
    wanted = set(no_training)
    assert len(wanted) == 7 * 14 + 2
    assert (
        prepared_for("compression", no_training, "pruned MLPs")
        | prepared_for("compression", no_training, "small MLPs")
        | prepared_for("compression", no_training, "compressed CNN")
        == wanted
    )


def test_all_that_the_page_on_quantization_trains_on_is_prepared(no_training: list[Any]) -> None:
    _, cell = cells_with("quantization", "learned = retrained(")
    from tinytorch.perf.quantization import Plan, Scheme

    space: dict[str, Any] = {"Plan": Plan, "Scheme": Scheme, "retrained": retrained.retrained}
    space |= {"trained_on": fine_tuning.trained_on, "trained": {name: untrained(name) for name in models.ZOO}}
    exec(cell, space)
    wanted = set(no_training)
    assert len(wanted) == 2
    assert (
        prepared_for("quantization", no_training, "in two bits")
        | prepared_for("quantization", no_training, "trained as long")
        == wanted
    )


def test_all_trained_variants_of_the_suites_are_prepared(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: set[tuple[str, str]] = set()

    def note(name: str, variant: str) -> None:
        asked.add((name, variant))

    monkeypatch.setattr(zoo, "trained_variant", note)
    for needs, names in (({"versions"}, {"mlp", "cnn"}), ({"versions", "gpt-versions"}, {*models.ZOO})):
        for step in steps_of(needs):
            if step.name.partition(" ")[0] in zoo.TRAINED:
                make(step.name)
        assert asked == {(name, variant) for name in names for variant in zoo.TRAINED}


def test_a_page_gets_the_steps_that_it_needs() -> None:
    needed = ["kernels of training steps", "trained GPT", "trained CNN", "trained MLP"]
    shared = ["kernels of calls", "ceilings of one core"]
    for pages, steps in (
        (["profiling"], [*needed, *shared]),
        (["profiling", "roofline"], [*needed, *shared]),
        (["memory"], shared),
        (["glossary"], []),
    ):
        assert [step.name for step in steps_of(needs_of(BOOK.parent, pages))] == steps


def test_what_no_step_is_for_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="there is no need 'modelz'"):
        steps_of(["modelz"])


def test_pages_name_all_needs_and_a_step_comes_after_what_it_starts_from() -> None:
    pages = [path.stem for path in BOOK.glob("*.md")]
    assert needs_of(BOOK.parent, pages) == NEEDS
    before: set[str] = set()
    for step in STEPS.values():
        assert before.issuperset(step.after)
        for needs in (needs_of(BOOK.parent, [page]) for page in pages):
            trained = step.after if step.work == "training" and not needs.isdisjoint(step.needs) else ()
            needed = {name for name in trained if name.startswith("trained ")}
            assert {other.name for other in steps_of(needs)}.issuperset(needed)
        before.add(step.name)


def test_what_pages_share_is_measured_when_nothing_else_runs() -> None:
    *others, last = STEPS.values()
    assert (last.work, {*last.after}) == ("measuring", {step.name for step in others})


@pytest.mark.parametrize("name", ["kernels of sparse weights", "kernels of texts, 8 bits"])
def test_what_is_compiled_runs(name: str) -> None:
    make(name)
