"""Modules of PyTorch, where it is not installed; peers/test_from_torch.py has those where it is."""

import sys

import pytest

from tinytorch.perf.onnx import from_torch


def test_who_has_no_torch_hears_how_to_export(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(RuntimeError, match=r"torch\.onnx\.export"):
        from_torch(object(), object())
