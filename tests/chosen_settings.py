"""Settings of this process as a test wants them."""

from dataclasses import replace

import pytest

from tinytorch import settings


def choose_settings(patch: pytest.MonkeyPatch, **chosen: str) -> None:
    """Have these settings, instead of those of the environment, until the patches are undone."""
    patch.setattr(settings, "SETTINGS", replace(settings.SETTINGS, **chosen))
