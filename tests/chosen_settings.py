"""Settings of this process as a test wants them, and how long tests wait."""

from dataclasses import replace

import pytest

from tinytorch import settings


def choose_settings(patch: pytest.MonkeyPatch, **chosen: str) -> None:
    """Have these settings, instead of those of the environment, until the patches are undone."""
    patch.setattr(settings, "SETTINGS", replace(settings.SETTINGS, **chosen))


#: Seconds. What is waited for takes two at most; a hundred times that is more than any slow and busy machine needs.
PATIENCE = 600
