"""Einstein's sums: products of several operands, summed over the letters that the result lacks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tinytorch.core.op import Array, Gradients, Op, Saved, Shape, contraction


def lettered(equation: str, shapes: Sequence[Shape]) -> tuple[list[str], str]:
    """Return the letters of each operand and of the result, with one for each axis that an ellipsis stands for.

    Raises:
        ValueError: if there are not as many terms as operands, or not as many letters as axes.
    """
    given, arrow, result = equation.replace(" ", "").partition("->")
    terms = given.split(",")
    spare = [each for each in map(chr, range(65, 123)) if each.isalpha() and each not in equation]
    if len(terms) != len(shapes):
        raise ValueError(f"equation {equation!r} must have a term for each of {len(shapes)} operands")
    most = max((len(s) - len(t) + 3 for t, s in zip(terms, shapes, strict=True) if "..." in t), default=0)
    more = "".join(spare[:most])
    made = []
    for term, shape in zip(terms, shapes, strict=True):
        hidden = len(shape) - len(term) + 3
        full = term.replace("...", more[most - hidden :] if hidden else "") if "..." in term else term
        if len(full) != len(shape):
            raise ValueError(f"equation {equation!r} must name each axis of {', '.join(map(str, shapes))}")
        made.append(full)
    if not arrow:
        every = "".join(made)
        result = "..." * bool(most) + "".join(sorted(c for c in set(every) if every.count(c) == 1 and c not in more))
    return made, result.replace("...", more)


def macs(equation: str, shapes: Sequence[Shape]) -> int:
    """Return the multiply-accumulates of one loop over all letters; 0 for one operand, which is no product."""
    terms, _ = lettered(equation, shapes)
    lengths: dict[str, int] = {}
    for letter, length in (
        (c, n) for term, shape in zip(terms, shapes, strict=True) for c, n in zip(term, shape, strict=True)
    ):
        lengths[letter] = max(length, lengths.get(letter, 1))
    return math.prod(lengths.values()) * (len(shapes) - 1)


def _forward(keep: bool, *operands: Array, equation: str) -> tuple[Array, Saved]:
    terms, result = lettered(equation, [each.shape for each in operands])
    output = np.einsum(f"{','.join(terms)}->{result}", *operands, optimize=len(operands) > 1)
    return np.asarray(output), (operands, terms, result) if keep else ()


def _backward(gradient: Array, saved: Saved, needs: tuple[bool, ...], owned: bool) -> Gradients:
    """Each gradient is the sum with the result and its operand exchanged; letters that are nowhere else repeat it."""
    operands, terms, result = saved
    return tuple(
        _one_gradient(gradient, operands, terms, result, index) if needed else None
        for index, needed in enumerate(needs)
    )


def _one_gradient(gradient: Array, operands: Sequence[Array], terms: list[str], result: str, index: int) -> Array:
    own, shape = terms[index], operands[index].shape
    if len(set(own)) < len(own):
        raise TypeError(f"a letter that one operand has twice, {own!r}, has no gradient here")
    others = [(term, each) for at, (term, each) in enumerate(zip(terms, operands, strict=True)) if at != index]
    known = {*result, *(letter for term, _ in others for letter in term)}
    kept = "".join(letter for letter in own if letter in known)
    inputs = ",".join([result, *(term for term, _ in others)])
    made = np.einsum(f"{inputs}->{kept}", gradient, *(each for _, each in others), optimize=True)
    wide = made.reshape([made.shape[kept.index(letter)] if letter in kept else 1 for letter in own])
    repeated = tuple(at for at, length in enumerate(shape) if length == 1 and wide.shape[at] != 1)
    return np.array(np.broadcast_to(wide.sum(axis=repeated, keepdims=True) if repeated else wide, shape))


#: Operands by an ``equation`` such as ``bij,bjk->bik``, as NumPy reads it.
einsum = Op(
    "einsum",
    _forward,
    _backward,
    contraction(lambda call: macs(call.params["equation"], [each.shape for each in call.inputs])),
)
