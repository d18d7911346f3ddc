"""Writes the conditions of the types into the schema of records: ``python -m scripts.write_schemas``."""

import json
from pathlib import Path

from tinytorch.perf.measuring.atomic_io import write_whole
from tinytorch.perf.measuring.codec import conditions_schema

RECORDS = Path(__file__).resolve().parents[1] / "tinytorch" / "report" / "record.schema.json"
#: The line behind which the definitions stand, one a line.
_BEFORE = '  "$defs": {\n'


def with_conditions(text: str) -> str:
    """Return the schema of records, in which definitions of conditions are those of the types."""
    made = {f'    "{name}": ': json.dumps(schema) for name, schema in conditions_schema().items()}
    kept = [line for line in text.splitlines(keepends=True) if not line.startswith(tuple(made))]
    head, tail = "".join(kept).split(_BEFORE)
    return head + _BEFORE + "".join(f"{name}{schema},\n" for name, schema in made.items()) + tail


if __name__ == "__main__":
    write_whole(RECORDS, with_conditions(RECORDS.read_text("utf-8")))
