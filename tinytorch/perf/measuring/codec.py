"""JSON codec: dataclasses, and the measurements in them, as JSON and back, each field checked by its annotation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, is_dataclass
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints

import numpy as np
from cattrs import Converter, transform_error
from cattrs.errors import BaseValidationError
from cattrs.gen import make_dict_structure_fn, override

from tinytorch.perf.measuring.measurement import Measurement

Json = dict[str, Any]
#: In the annotation of a measurement behind its unit: a difference, whose samples may lie on either side of 0.
SIGNED = "signed"
Value = TypeVar("Value")


def to_json(value: Any) -> Any:
    """Return a value as JSON can hold it: a dataclass as an object of its fields, a mapping by the text of its keys.

    A measurement becomes its name, unit, median, interval (``low``, ``high`` and ``confidence``, or null for one
    sample), samples and conditions.
    """
    return _converter.unstructure(value)


def from_json(given: Any, kind: type[Value], name: str) -> Value:
    """Return the value of type ``kind`` that `to_json` wrote.

    Raises:
        ValueError: with ``name`` and the field, if one is missing or not of the type, unit or range it must have.
    """
    try:
        return _converter.structure(given, kind)
    except BaseValidationError as error:
        raise ValueError(f"{name}: {transform_error(error, path='$', format_exception=_sentence)[0]}") from None


def measurement_to_json(one: Measurement) -> Json:
    """Return the measurement's name, unit, median, interval, samples and conditions."""
    interval = None if math.isnan(one.interval.confidence) else asdict(one.interval)
    return {
        "name": one.name,
        "unit": one.unit,
        "median": one.median,
        "interval": interval,
        "samples": list(one.samples),
        "how": dict(one.how),
    }


def _measurement(given: Any, unit: str, signed: bool) -> Measurement:
    fields = _object(given)
    name, samples = fields["name"], fields["samples"]
    if fields["unit"] != unit:
        raise ValueError(f"{name!r} must be in {unit}, not in {fields['unit']!r}")
    if not isinstance(samples, list) or not samples:
        raise ValueError(f"samples of {name!r} must be a list that is not empty")
    least = -math.inf if signed else 0
    if not all(type(sample) in (int, float) and least < sample < math.inf for sample in samples):
        raise ValueError(f"samples of {name!r} must be {'finite numbers' if signed else 'numbers above 0'}")
    return Measurement(str(name), tuple(map(float, samples)), unit, _object(fields["how"]))


def _object(given: Any) -> Json:
    if not isinstance(given, dict):
        raise ValueError(f"it must be an object, not {type(given).__name__}")
    return given


def _key(text: Any) -> int:
    """Return the whole number that a JSON object has as a key, where it is text."""
    if not (isinstance(text, str) and text.isdecimal()):
        raise ValueError(f"a key must be a whole number, not {text!r}")
    return int(text)


def _exactly(kind: type) -> Any:
    """Return what takes a value of this very type, and an int for a float; cattrs itself would convert text."""

    def checked(given: Any, _kind: Any) -> Any:
        if type(given) is kind:
            return given
        if kind is float and type(given) is int:
            return float(given)
        raise ValueError(f"it must be {_WORDS[kind]}, not {given!r}")

    return checked


_WORDS = {int: "a whole number", float: "a number", str: "text", bool: "true or false"}


def _sentence(error: BaseException, _kind: type | None) -> str:
    return f"the field {error} is missing" if isinstance(error, KeyError) else str(error)


def _is_named_tuple(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, tuple) and hasattr(kind, "_fields")


def _named_tuple(made: Converter, given: Any, kind: Any) -> Any:
    fields = get_type_hints(kind)
    if not isinstance(given, list) or len(given) != len(fields):
        raise ValueError(f"it must be a list of {', '.join(fields)}")
    return kind(*(made.structure(one, field) for one, field in zip(given, fields.values(), strict=True)))


def _is_dtype(kind: Any) -> bool:
    kind = get_origin(kind) or kind
    return isinstance(kind, type) and issubclass(kind, np.dtype)


def _is_of_a_unit(kind: Any) -> bool:
    return get_origin(kind) is Annotated and get_args(kind)[0] is Measurement


def _is_by_number(kind: Any) -> bool:
    return get_origin(kind) in (Mapping, dict) and get_args(kind)[0] is int


def _fields_of(kind: Any, made: Converter) -> Any:
    """Return what makes a dataclass of an object; cattrs itself would lose the units of annotations that are text."""
    fields = get_type_hints(kind, include_extras=True)
    hooks: dict[str, Any] = {name: override(struct_hook=_as(made, field)) for name, field in fields.items()}
    return make_dict_structure_fn(kind, made, **hooks)


def _as(made: Converter, field: Any) -> Any:
    return lambda given, _kind: made.structure(given, field)


def _made() -> Converter:
    made = Converter()
    made.register_structure_hook_factory(is_dataclass, _fields_of)
    made.register_structure_hook_func(_is_named_tuple, lambda given, kind: _named_tuple(made, given, kind))
    made.register_unstructure_hook_func(_is_named_tuple, lambda value: [made.unstructure(one) for one in value])
    made.register_structure_hook_func(_is_dtype, lambda given, _kind: np.dtype(given))
    made.register_unstructure_hook_func(_is_dtype, lambda value: value.str)
    for kind in _WORDS:
        made.register_structure_hook(kind, _exactly(kind))
    made.register_structure_hook_func(
        _is_of_a_unit,
        lambda given, kind: _measurement(given, get_args(kind)[1], SIGNED in get_args(kind)),
    )
    made.register_structure_hook_func(
        _is_by_number,
        lambda given, kind: {_key(key): made.structure(one, get_args(kind)[1]) for key, one in _object(given).items()},
    )
    made.register_unstructure_hook_func(
        lambda kind: isinstance(kind, type) and issubclass(kind, Measurement), measurement_to_json
    )
    return made


_converter = _made()
