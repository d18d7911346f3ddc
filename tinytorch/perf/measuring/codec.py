"""JSON: files of values in one envelope, and the codec of the values, each field checked by its annotation."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields, is_dataclass
from enum import StrEnum
from inspect import cleandoc
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, Generic, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
from cattrs import Converter, transform_error
from cattrs.errors import BaseValidationError
from cattrs.gen import make_dict_structure_fn, override

from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.perf.measuring.conditions import (
    BetweenRuns,
    BlasThreads,
    Caches,
    Conditions,
    Instrument,
    Planned,
    Sample,
    Side,
)
from tinytorch.perf.measuring.measurement import Measurement
from tinytorch.perf.measuring.statistics import Known, Stated

Json = dict[str, Any]
#: In the annotation of a measurement behind its unit: a difference, whose samples may lie on either side of 0.
SIGNED = "signed"
#: One truth value for each example; as JSON the number of examples and the indices of the false ones.
Flags = npt.NDArray[np.bool_]
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Format(Generic[Value]):
    """A format of files: one JSON object with ``schema``, ``schema_version``, ``machine`` and ``values``.

    Attributes:
        schema: name of the format.
        version: rises whenever a reader of the files would have to change.
        kind: type of the values.
        made_by: what writes such a file, in words that end an error.
    """

    schema: str
    version: int
    kind: type[Value]
    made_by: str

    def write(self, path: str | Path, values: Value, machine: Any) -> Path:
        """Write ``values`` to ``path``, which is then whole or untouched, and return the path.

        Args:
            path: of the file.
            values: to be kept.
            machine: what is known of where they were measured, as JSON has it.
        """
        envelope = {"schema": self.schema, "schema_version": self.version, "machine": machine}
        return write_whole(path, json.dumps({**envelope, "values": to_json(values)}, allow_nan=False))

    def read(self, path: str | Path) -> tuple[Value, Any]:
        """Return the values in a file, and the machine on which they were measured.

        Raises:
            ValueError: with the path and one reason, if the file is cut short, or of another format or version, or
                does not hold such values.
            OSError: if it cannot be read.
        """
        try:
            document = json.loads(Path(path).read_bytes())
        except ValueError as error:
            raise ValueError(f"{path} is cut short or damaged: {error}") from None
        schema = document.get("schema") if isinstance(document, dict) else type(document).__name__
        if schema != self.schema:
            raise ValueError(
                f"{path} must be a {self.schema!r} file of version {self.version}, not {schema!r}: make it again with "
                f"{self.made_by}"
            )
        if document.get("schema_version") != self.version:
            raise ValueError(
                f"{path} is of version {document.get('schema_version')!r}, not {self.version}: make it again with "
                f"{self.made_by}"
            )
        if "machine" not in document:
            raise ValueError(f"{path}: the field 'machine' is missing")
        return from_json(document.get("values"), self.kind, str(path)), document["machine"]


def to_json(value: Any) -> Any:
    """Return a value as JSON can hold it: a dataclass as an object of its fields, a mapping by the text of its keys.

    A measurement becomes its name, unit, median, interval (``low``, ``high`` and ``confidence``, or null for one
    sample), samples and conditions, of which those stand there that are known.
    """
    return _converter.unstructure(value)


def from_json(given: Any, kind: type[Value], name: str) -> Value:
    """Return the value of type ``kind`` that `to_json` wrote.

    Raises:
        ValueError: with ``name`` and the field, if one is missing or not of the type, unit or range it must have.
    """
    try:
        return _converter.structure(given, kind)
    except (BaseValidationError, TypeError, ValueError) as error:
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
        "conditions": to_json(one.conditions),
    }


def _measurement(given: Any, unit: str, signed: bool) -> Measurement:
    found = _object(given)
    name, samples = found["name"], found["samples"]
    if found["unit"] != unit:
        raise ValueError(f"{name!r} must be in {unit}, not in {found['unit']!r}")
    if not isinstance(samples, list) or not samples:
        raise ValueError(f"samples of {name!r} must be a list that is not empty")
    least = -math.inf if signed else 0
    if not all(type(sample) in (int, float) and least < sample < math.inf for sample in samples):
        raise ValueError(f"samples of {name!r} must be {'finite numbers' if signed else 'numbers above 0'}")
    conditions = _converter.structure(found["conditions"], Conditions)
    return measured(str(name), tuple(map(float, samples)), unit, conditions, found["median"], found["interval"])


def measured(
    name: str, samples: tuple[float, ...], unit: str, conditions: Conditions, value: float, interval: Json | None
) -> Measurement:
    """Return the measurement of which these were written; of another statistic than the median, its interval is known.

    Of others the interval is made of the samples and conditions.
    """
    if conditions.statistic is None:
        return Measurement(name, samples, unit, conditions)
    if interval is None:
        return Measurement(name, (float(value),), unit, conditions)
    if interval["low"] == interval["high"] and len(samples) == 1:
        return Measurement(name, samples, unit, conditions, law=Known(float(value)))
    return Measurement(name, samples, unit, conditions, law=Stated(float(value), **interval))


_INSTRUMENTS = {kind.__name__: kind for kind in get_args(Instrument)}
#: What the JSON of conditions is made of: no other field is taken, and one at its default is left out.
_OF_CONDITIONS = (Conditions, Side, BetweenRuns, Planned, *_INSTRUMENTS.values())


def _known(one: Any) -> Json:
    """Return the fields that differ from what they are where nothing is known; of an instrument also its kind."""
    found = {field.name: getattr(one, field.name) for field in fields(one)}
    known = {field.name: found[field.name] for field in fields(one) if found[field.name] != field.default}
    kind = {"kind": type(one).__name__} if isinstance(one, Instrument) else {}
    return {**kind, **{name: _converter.unstructure(value) for name, value in known.items()}}


def _instrument(given: Any, _kind: Any) -> Instrument | None:
    if given is None:
        return None
    kind = _object(given).get("kind")
    if kind not in _INSTRUMENTS:
        raise ValueError(f"kind of an instrument must be one of {', '.join(_INSTRUMENTS)}, not {kind!r}")
    return _converter.structure({name: value for name, value in given.items() if name != "kind"}, _INSTRUMENTS[kind])


def _threads(given: Any, _kind: Any) -> BlasThreads | None:
    if given is None or given == "unknown" or (type(given) is int and given > 0):
        return given
    raise ValueError(f"it must be a number of threads or 'unknown', not {given!r}")


def conditions_schema() -> Json:
    """Return the definitions of JSON Schema that `to_json` of `Conditions` follows, by name, made of the types."""
    return {kind.__name__: _schema_of_fields(kind) for kind in _OF_CONDITIONS}


def _schema_of_fields(kind: Any) -> Json:
    said = dict(re.findall(r"^ {4}(\w+): (.+(?:\n {8}.+)*)", cleandoc(kind.__doc__), re.MULTILINE))
    hints = get_type_hints(kind)
    properties: Json = {"kind": {"const": kind.__name__}} if kind in _INSTRUMENTS.values() else {}
    for field in fields(kind):
        about = {"description": re.sub(r"\s+", " ", said[field.name])} if field.name in said else {}
        properties[field.name] = {**_schema(hints[field.name]), **about}
    required = [name for name in properties if name not in {f.name for f in fields(kind) if f.default is not MISSING}]
    about = {"description": kind.__doc__.splitlines()[0]}
    return {"type": "object", **about, "required": required, "additionalProperties": False, "properties": properties}


def _schema(kind: Any) -> Json:
    """Return the JSON Schema of a field's type; None is what a field is that is left out."""
    if isinstance(kind, type) and is_dataclass(kind):
        return {"$ref": f"#/$defs/{kind.__name__}"}
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return {"enum": [str(one) for one in kind]}
    if get_origin(kind) is Literal:
        return {"enum": list(get_args(kind))}
    if get_origin(kind) is tuple:
        return {"type": "array", "items": _schema(get_args(kind)[0])}
    if get_origin(kind) in (Union, UnionType):
        forms = [_schema(one) for one in get_args(kind) if one is not NoneType]
        return forms[0] if len(forms) == 1 else {"oneOf": forms}
    return {"type": {int: "integer", float: "number", str: "string", bool: "boolean"}[kind]}


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
    hints = get_type_hints(kind)
    if not isinstance(given, list) or len(given) != len(hints):
        raise ValueError(f"it must be a list of {', '.join(hints)}")
    return kind(*(made.structure(one, field) for one, field in zip(given, hints.values(), strict=True)))


def _is_dtype(kind: Any) -> bool:
    kind = get_origin(kind) or kind
    return isinstance(kind, type) and issubclass(kind, np.dtype)


def _flags(given: Any, _kind: Any) -> Flags | None:
    if given is None:
        return None
    examples, false = (given.get(name) if isinstance(given, dict) else None for name in ("examples", "false"))
    if type(examples) is not int or examples < 0 or not isinstance(false, list):
        raise ValueError(f"correct must have a number of examples and a list of the false ones, not {given!r}")
    if not all(type(index) is int and 0 <= index < examples for index in false):
        raise ValueError(f"false must be indices below {examples}, not {false}")
    flags = np.ones(examples, np.bool_)
    flags[false] = False
    return flags


def _is_of_a_unit(kind: Any) -> bool:
    return get_origin(kind) is Annotated and get_args(kind)[0] is Measurement


def _is_by_number(kind: Any) -> bool:
    return get_origin(kind) in (Mapping, dict) and get_args(kind)[0] is int


def _fields_of(kind: Any, made: Converter) -> Any:
    """Return what makes a dataclass of an object; cattrs itself would lose the units of annotations that are text."""
    hints = get_type_hints(kind, include_extras=True)
    hooks: dict[str, Any] = {name: override(struct_hook=_as(made, field)) for name, field in hints.items()}
    structure = make_dict_structure_fn(kind, made, _cattrs_forbid_extra_keys=_is_of_conditions(kind), **hooks)
    return lambda given, to: structure(_object(given), to)


def _is_of_conditions(kind: Any) -> bool:
    return kind in _OF_CONDITIONS


def _as(made: Converter, field: Any) -> Any:
    return lambda given, _kind: made.structure(given, field)


def _made() -> Converter:
    made = Converter()
    made.register_structure_hook_factory(is_dataclass, _fields_of)
    made.register_structure_hook_func(_is_named_tuple, lambda given, kind: _named_tuple(made, given, kind))
    made.register_unstructure_hook_func(_is_named_tuple, lambda value: [made.unstructure(one) for one in value])
    made.register_structure_hook_func(_is_dtype, lambda given, _kind: np.dtype(given))
    made.register_unstructure_hook_func(_is_dtype, lambda value: value.str)
    made.register_structure_hook_func(lambda kind: kind == Flags | None, _flags)
    made.register_unstructure_hook_func(
        lambda kind: kind == Flags | None,
        lambda flags: flags if flags is None else {"examples": flags.size, "false": np.flatnonzero(~flags).tolist()},
    )
    for chosen in (Sample, Caches):
        made.register_structure_hook(chosen, lambda given, kind: kind(given))
    for kind in _WORDS:
        made.register_structure_hook(kind, _exactly(kind))
    made.register_structure_hook_func(lambda kind: kind == Instrument | None, _instrument)
    made.register_structure_hook_func(lambda kind: kind == BlasThreads | None, _threads)
    made.register_unstructure_hook_func(_is_of_conditions, _known)
    made.register_structure_hook_func(
        _is_of_a_unit, lambda given, kind: _measurement(given, get_args(kind)[1], SIGNED in get_args(kind))
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
