"""What tests of chapters share: figures drawn once."""

from collections.abc import Iterator

import pytest
from matplotlib.figure import Figure


@pytest.fixture(autouse=True, scope="module")
def _figures_drawn_once() -> Iterator[None]:
    """Draw the figures of pages once and write none: two layouts, each until its ticks fit, take half a second."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tinytorch.report.layouts.both_layouts", _drawn_once)
        yield


def _drawn_once(figure: Figure, **_: object) -> tuple[str, None]:
    figure.draw_without_rendering()
    return "<svg></svg>", None
