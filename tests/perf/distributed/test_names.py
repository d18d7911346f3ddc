"""The names that the package for several ranks offers: all are there, and none costs a rank SciPy's import."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tinytorch.perf import distributed


def test_every_name_is_there() -> None:
    for name in distributed.__all__:
        assert getattr(distributed, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'gossip'"):
        _ = distributed.gossip


def test_a_rank_that_imports_the_package_does_not_import_scipy() -> None:
    code = "import sys, tinytorch.perf.distributed; sys.exit('scipy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
