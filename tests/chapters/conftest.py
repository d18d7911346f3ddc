"""What tests of chapters share: figures drawn once."""

import pytest


@pytest.fixture(autouse=True, scope="module")
def _figures_of_all_chapters(figures_drawn_once: None) -> None:
    """Draw no figure of a page twice."""
