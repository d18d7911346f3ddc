"""An observer that keeps what it is told."""

from typing import Any

from tinytorch.core.dispatch import Observer
from tinytorch.core.module import Module
from tinytorch.core.op import Array, Call, Saved


class Recorder(Observer):
    """Keeps every call, and the order in which modules began and ended."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.arrays: list[tuple[Any, Any, Any]] = []
        self.modules: list[tuple[str, str]] = []
        self.started = 0

    def before_op(self) -> None:
        """Count a start."""
        self.started += 1

    def after_op(self, call: Call, inputs: tuple[Any, ...], outputs: tuple[Array | None, ...], saved: Saved) -> None:
        """Keep the call, its operands and results, and what it saved."""
        self.calls.append(call)
        self.arrays.append((inputs, outputs, saved))

    def enter_module(self, path: str, module: Module) -> None:
        """Keep that a module began."""
        self.modules.append(("enter", path))

    def leave_module(self, path: str, module: Module) -> None:
        """Keep that a module ended."""
        self.modules.append(("leave", path))

    def seen(self) -> list[tuple[str, str, str]]:
        """Return op, phase and module path of each call."""
        return [(call.op.name, call.phase, call.path) for call in self.calls]
