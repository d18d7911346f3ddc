"""What the comparisons share with the tests: whose warnings are errors."""

from __future__ import annotations

from tests.own_warnings import pytest_configure as pytest_configure
