"""Module: parameters and submodules with names, train and eval modes, and state that saves without pickle."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from tinytorch.core import dispatch
from tinytorch.core.op import Array
from tinytorch.core.tensor import Tensor, mark_changed


class Parameter(Tensor):
    """A Tensor that training changes, unless ``requires_grad`` is false: frozen. It owns a copy of ``data``.

    By default one that is made of another Parameter is frozen if that is, and any other is not.
    """

    __slots__ = ()

    def __init__(self, data: Any, requires_grad: bool | None = None) -> None:
        if requires_grad is None:
            requires_grad = data.requires_grad if isinstance(data, Parameter) else True
        # In C order whatever the order of data: optimizers change parameters through flat views.
        super().__init__(np.array(Tensor(data).data, copy=True, order="C"), requires_grad=requires_grad)


class Module:
    """Base class of layers and models.

    Attributes that are Parameters, other Tensors (buffers: state that is saved but not trained), Modules, or
    lists, tuples and dicts of these, also within one another, are found by name. Override ``forward``.

    Examples:
        >>> from tinytorch import Linear, Module, Tensor
        >>> class Double(Module):
        ...     def __init__(self):
        ...         self.layer = Linear(3, 3)
        ...     def forward(self, x):
        ...         return self.layer(x) * 2
        >>> model = Double()
        >>> [name for name, _ in model.named_parameters()]
        ['layer.weight', 'layer.bias']
        >>> model(Tensor([[1, 2, 3]])).shape
        (1, 3)
    """

    training: bool = True
    #: Attributes that hold what follows from the model and the shapes of its inputs, kept so as to work it out once.
    worked_out: tuple[str, ...] = ()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Run ``forward``; observers see which module its ops belong to."""
        if not dispatch.is_observed():
            return self.forward(*args, **kwargs)
        with dispatch.module_scope(self):
            return self.forward(*args, **kwargs)

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Compute the output from the input; each subclass defines its own."""
        raise TypeError(f"{type(self).__name__} must define forward")

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """Yield name and module of each direct child, in order of assignment."""
        for name, value in self._named_values():
            if isinstance(value, Module):
                yield name, value

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """Yield dotted name and module, of this module (``prefix``) and of all modules in it; each module once."""
        seen: set[int] = set()
        stack: list[tuple[str, Module]] = [(prefix, self)]
        while stack:
            name, module = stack.pop()
            if id(module) in seen:
                continue
            seen.add(id(module))
            yield name, module
            children = [
                (f"{name}.{child_name}" if name else child_name, child) for child_name, child in module.named_children()
            ]
            stack.extend(reversed(children))

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """Yield the dotted name and the value of each parameter; a shared parameter once, under its first name."""
        yield from self._named_tensors(lambda tensor: isinstance(tensor, Parameter))  # type: ignore[misc]

    def named_buffers(self) -> Iterator[tuple[str, Tensor]]:
        """Yield dotted name and tensor of state that is saved but not trained."""
        yield from self._named_tensors(lambda tensor: not isinstance(tensor, Parameter))

    def parameters(self) -> list[Parameter]:
        """Return all parameters, each once."""
        return [parameter for _, parameter in self.named_parameters()]

    def train(self, mode: bool = True) -> Self:
        """Set train mode (or eval mode, if False) for this module and all modules in it; return self.

        Raises:
            TypeError: if ``mode`` is not a bool, such as a loader of examples: `tinytorch.core.training.fit` trains.
        """
        if not isinstance(mode, bool):
            raise TypeError(
                f"mode must be True or False, not a {type(mode).__name__}: train() only sets the mode, and "
                "tinytorch.core.training.fit(model, loader, loss, optimizer, epochs) trains"
            )
        for _, module in self.named_modules():
            module.training = mode
        return self

    def eval(self) -> Self:
        """Set eval mode for this module and all modules in it; return self."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Clear the gradients of all parameters."""
        for parameter in self.parameters():
            parameter.grad = None

    def state_dict(self) -> dict[str, Array]:
        """Return a copy of every parameter and buffer by name."""
        return {name: tensor.data.copy() for name, tensor in self._named_state()}

    def load_state_dict(self, state: Mapping[str, Array]) -> None:
        """Copy ``state`` into parameters and buffers.

        Raises:
            ValueError: if a name is missing or unknown, a shape differs, or a value is not numeric or none that its
                tensor can hold; nothing is changed then.
        """
        own = dict(self._named_state())
        missing, unknown = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
        if missing or unknown:
            raise ValueError(
                f"state must have the entries of this model: it lacks {missing or 'none'}, and the model lacks "
                f"{unknown or 'none'}"
            )
        for name, tensor in own.items():
            if np.shape(state[name]) != tensor.shape:
                raise ValueError(f"state[{name!r}] must have shape {tensor.shape}, not {np.shape(state[name])}")
            if np.asarray(state[name]).dtype.kind not in "fiub":
                raise ValueError(f"state[{name!r}] must be numeric, not of dtype {np.asarray(state[name]).dtype}")
        held = {}
        for name, tensor in own.items():
            try:
                held[name] = tensor.holding(state[name])
            except ValueError as error:
                raise ValueError(f"state[{name!r}] {error}") from None
        for name, tensor in own.items():
            tensor.data[...] = held[name]
        mark_changed(tensor.data for tensor in own.values())

    def save(self, path: str | Path) -> None:
        """Write the state as an ``.npz`` file (NumPy arrays, no pickle), atomically."""
        target = Path(path)
        aside = target.with_name(f".{target.name}.{os.getpid()}.part")
        try:
            with aside.open("wb") as file:
                np.savez(file, allow_pickle=False, **self.state_dict())
            aside.replace(target)
        except BaseException:
            aside.unlink(missing_ok=True)
            raise

    def load(self, path: str | Path) -> Self:
        """Read the state that `save` wrote; return self.

        Raises:
            ValueError: if the file is none of these or does not fit this model; nothing is changed then.
            FileNotFoundError: if there is no such file.
        """
        try:
            # Opened here, because NumPy leaves a file open that it finds to be broken.
            with open(path, "rb") as file, np.load(file, allow_pickle=False) as archive:
                state = {name: archive[name] for name in archive.files}
        except FileNotFoundError:
            raise
        except Exception as error:
            raise ValueError(f"path {str(path)!r} holds no state that save() wrote: {error}") from error
        self.load_state_dict(state)
        return self

    def _named_values(self) -> Iterator[tuple[str, Any]]:
        """Yield name and value of each Module and Tensor among the attributes, containers opened."""
        for name, value in vars(self).items():
            yield from _held(name, value, ())

    def _named_tensors(self, wanted: Any) -> Iterator[tuple[str, Tensor]]:
        seen: set[int] = set()
        for prefix, module in self.named_modules():
            for name, value in module._named_values():
                if isinstance(value, Tensor) and wanted(value) and id(value) not in seen:
                    seen.add(id(value))
                    yield f"{prefix}.{name}" if prefix else name, value

    def _named_state(self) -> Iterator[tuple[str, Tensor]]:
        yield from self.named_parameters()
        yield from self.named_buffers()

    def __repr__(self) -> str:
        lines = [f"({name}): {child!r}".replace("\n", "\n  ") for name, child in self.named_children()]
        described = self._described()
        if not lines:
            return f"{type(self).__name__}({described})"
        body = "\n  ".join(([described] if described else []) + lines)
        return f"{type(self).__name__}(\n  {body}\n)"

    def _described(self) -> str:
        """Return the arguments to show between the brackets of ``repr``."""
        return ""


def _held(name: str, value: Any, around: tuple[Any, ...]) -> Iterator[tuple[str, Any]]:
    """Yield name and value of each Module and Tensor that ``value`` is or holds; ``around`` are containers of it."""
    if isinstance(value, (Module, Tensor)):
        yield name, value
    elif isinstance(value, (list, tuple, deque, Mapping)) and not any(value is each for each in around):
        for key, item in value.items() if isinstance(value, Mapping) else enumerate(value):
            yield from _held(f"{name}.{key}", item, (*around, value))
    elif isinstance(value, (set, frozenset)) and any(isinstance(each, (Module, Tensor)) for each in value):
        raise TypeError(f"{name} must not hold modules or tensors in a set, because a set has no order: use a list")


def check_module(model: Any, name: str = "model") -> None:
    """Raise TypeError, which names the argument, unless ``model`` is a Module."""
    if not isinstance(model, Module):
        raise TypeError(
            f"{name} must be a Module of tinytorch, not of class {type(model).__name__}: derive the class from Module"
        )


class Sequential(Module):
    """Modules that run one after the other, named "0", "1", ...

    Examples:
        >>> from tinytorch import Linear, Sequential, Tensor
        >>> from tinytorch.core.activations import ReLU
        >>> model = Sequential(Linear(8, 4), ReLU(), Linear(4, 2))
        >>> model(Tensor([[0.5] * 8])).shape
        (1, 2)
    """

    def __init__(self, *modules: Module) -> None:
        self.layers = list(modules)

    def forward(self, x: Any) -> Any:
        """Return the last module's output."""
        for layer in self.layers:
            x = layer(x)
        return x

    def __len__(self) -> int:
        return len(self.layers)

    def __getitem__(self, index: int) -> Any:
        return self.layers[index]

    def __iter__(self) -> Iterator[Module]:
        return iter(self.layers)

    def _named_values(self) -> Iterator[tuple[str, Any]]:
        for name, value in super()._named_values():
            yield name.removeprefix("layers."), value
