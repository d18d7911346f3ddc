"""The register tile of the integer product: rows of unsigned bytes times panels of signed ones, sums in registers.

Rows lie as [tile of `ROWS`][segment][16 bytes of the depth][row][16], panels as [panel][segment][4 bytes of the
depth][column of 16][4]. A segment is a group of the depth that has scales of its own; without groups there is one.
"""

# ruff: noqa: ARG001 - a typing function names its arguments for those that it emits

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytorch.perf.kernels import vectors
from tinytorch.perf.kernels.int8_instructions import DOTS, Dot, emitters
from tinytorch.perf.quantization.packing import PANEL

#: Rows of a tile as they lie in memory.
ROWS = 12
#: Bytes of a row that lie together; bytes of a panel for four of the depth.
CHUNK, STEP = 16, 4 * PANEL
#: Steps of the depth, and lines of a panel, that a turn of the depth's loop reads.
_TURN = 4
#: The cache that panels are asked into, as `vectors.prefetch` counts.
_SECOND_CACHE = 2
BYTE = ir.IntType(8)
INDEX = ir.IntType(64)


@dataclass(frozen=True)
class _Operands:
    """Pointers and sizes that a tile reads, by name, as values of LLVM."""

    a: Any
    b: Any
    fetched: Any
    fetch_stride: Any
    panel_bytes: Any
    steps: Any
    segments: Any
    output: Any
    columns: Any
    rows_left: Any
    columns_left: Any
    row_scale: Any
    row_zero: Any
    row_adjust: Any
    column_sums: Any
    padded_columns: Any
    scale: Any
    zero: Any
    has_zero: Any
    bias: Any
    sums_only: bool


def _at(builder: Any, pointer: Any, place: Any, vector: Any) -> Any:
    """Return the vector (or number) that begins at element ``place``, at any address."""
    return vectors.load(builder, pointer, place, vector, align=1)


def _accumulate(
    builder: Any, dot: Dot, rows: int, vectors_wide: int, a: Any, b: Any, fetched: Any, given: _Operands
) -> list[Any]:
    """Emit the loop over the depth of one segment; return the variables of the sums, row by row.

    Each turn asks for as many lines as it reads, ``fetch_stride`` apart from ``fetched`` on.
    """
    vector = ir.VectorType(vectors.INT32, dot.lanes)
    sums = vectors.variables(builder, vector, rows * vectors_wide)
    for slot in sums:
        builder.store(ir.Constant(vector, None), slot)
    unsigned, signed, add = emitters(builder, dot)
    in_panel = PANEL // dot.lanes

    def step(a_step: Any, b_step: Any) -> None:
        """Add four of the depth."""
        right = []
        for index in range(vectors_wide):
            panel, part = divmod(index, in_panel)
            place = builder.add(builder.mul(given.panel_bytes, INDEX(panel)), INDEX(part * dot.lanes * 4))
            right.append(signed(_at(builder, b_step, place, vector)))
        for row in range(rows):
            word = _at(builder, a_step, INDEX(row * CHUNK), vectors.INT32)
            left = unsigned(vectors.filled(builder, word, vector))
            for index in range(vectors_wide):
                slot = sums[row * vectors_wide + index]
                builder.store(add(builder.load(slot), left, right[index]), slot)

    lines = _TURN * vectors_wide // in_panel
    chunks = builder.udiv(given.steps, INDEX(_TURN))
    with cgutils.for_range(builder, chunks) as loop:
        a_chunk = builder.gep(a, [builder.mul(loop.index, INDEX(ROWS * CHUNK))])
        b_chunk = builder.gep(b, [builder.mul(loop.index, INDEX(_TURN * STEP))])
        first_line = builder.mul(loop.index, INDEX(lines))
        for line in range(lines):
            far = builder.mul(builder.add(first_line, INDEX(line)), given.fetch_stride)
            vectors.prefetch(builder, builder.gep(fetched, [far]), _SECOND_CACHE)
        for number in range(_TURN):
            step(builder.gep(a_chunk, [INDEX(4 * number)]), builder.gep(b_chunk, [INDEX(STEP * number)]))
    a_rest = builder.gep(a, [builder.mul(chunks, INDEX(ROWS * CHUNK))])
    b_rest = builder.gep(b, [builder.mul(chunks, INDEX(_TURN * STEP))])
    with cgutils.for_range(builder, builder.urem(given.steps, INDEX(_TURN))) as loop:
        step(
            builder.gep(a_rest, [builder.mul(loop.index, INDEX(4))]),
            builder.gep(b_rest, [builder.mul(loop.index, INDEX(STEP))]),
        )
    return sums


def _correct(
    builder: Any, dot: Dot, sums: list[Any], places: list[tuple[Any, Any]], segment: Any, given: _Operands
) -> None:
    """Take the zero points from int32 sums: Σ a b − z_a Σ b − z_b (Σ a − depth z_a), exact modulo 2^32."""
    vector = ir.VectorType(vectors.INT32, dot.lanes)
    top = builder.mul(segment, given.padded_columns)
    for slot, (row, column) in zip(sums, places, strict=True):
        row_zero = vectors.filled(builder, _at(builder, given.row_zero, row, vectors.INT32), vector)
        total = _at(builder, given.column_sums, builder.add(top, column), vector)
        builder.store(builder.sub(builder.load(slot), builder.mul(row_zero, total)), slot)
    if given.sums_only:
        return
    with builder.if_then(given.has_zero, likely=False):
        for slot, (row, column) in zip(sums, places, strict=True):
            codes = _at(builder, given.zero, builder.add(top, column), ir.VectorType(BYTE, dot.lanes))
            adjust_place = builder.add(builder.mul(row, given.segments), segment)
            adjust = vectors.filled(builder, _at(builder, given.row_adjust, adjust_place, vectors.INT32), vector)
            less = builder.mul(builder.sext(codes, vector), adjust)
            builder.store(builder.sub(builder.load(slot), less), slot)


def _write(builder: Any, value: Any, row: Any, column: Any, given: _Operands) -> None:
    """Store a vector to the output, of which only some rows and columns may exist."""
    kind = value.type
    flags = ir.VectorType(ir.IntType(1), kind.count)
    letter = "f" if kind.element == vectors.FLOAT else "i"
    shape = ir.FunctionType(ir.VoidType(), [kind, kind.as_pointer(), vectors.INT32, flags])
    name = f"llvm.masked.store.v{kind.count}{letter}32.p0v{kind.count}{letter}32"
    store = cgutils.get_or_insert_function(builder.module, shape, name)
    lanes = ir.Constant(ir.VectorType(vectors.INT32, kind.count), list(range(kind.count)))
    left = builder.trunc(builder.sub(given.columns_left, column), vectors.INT32)
    exists = builder.icmp_signed("<", lanes, vectors.filled(builder, left, lanes.type))
    with builder.if_then(builder.icmp_signed("<", row, given.rows_left), likely=True):
        place = builder.add(builder.mul(row, given.columns), column)
        pointer = builder.bitcast(builder.gep(given.output, [place]), kind.as_pointer())
        builder.call(store, [value, pointer, vectors.INT32(4), exists])


def _emit_part(
    builder: Any, dot: Dot, first_row: Any, rows: int, first_panel: Any, panels: int, given: _Operands
) -> None:
    """Emit one register tile: all segments of the depth, then scales and bias, then the stores."""
    wide = panels * PANEL // dot.lanes
    vector = ir.VectorType(vectors.FLOAT, dot.lanes)
    kept = vectors.variables(builder, vector, rows * wide)
    for slot in kept:
        builder.store(ir.Constant(vector, None), slot)
    first_column = builder.mul(first_panel, INDEX(PANEL))
    places = [
        (builder.add(first_row, INDEX(row)), builder.add(first_column, INDEX(part * dot.lanes)))
        for row in range(rows)
        for part in range(wide)
    ]
    chunks = builder.udiv(builder.add(given.steps, INDEX(3)), INDEX(4))
    segment_bytes = builder.mul(chunks, INDEX(ROWS * CHUNK))
    fetched = builder.mul(
        builder.mul(builder.udiv(given.steps, INDEX(_TURN)), given.fetch_stride), INDEX(_TURN * panels)
    )
    a = builder.gep(given.a, [builder.mul(first_row, INDEX(CHUNK))])
    b = builder.gep(given.b, [builder.mul(given.panel_bytes, first_panel)])
    with cgutils.for_range(builder, given.segments) as loop:
        segment = loop.index
        a_segment = builder.gep(a, [builder.mul(segment, segment_bytes)])
        b_segment = builder.gep(b, [builder.mul(builder.mul(segment, given.steps), INDEX(STEP))])
        far = builder.gep(given.fetched, [builder.mul(segment, fetched)])
        sums = _accumulate(builder, dot, rows, wide, a_segment, b_segment, far, given)
        _correct(builder, dot, sums, places, segment, given)
        for index, (row, column) in enumerate(places):
            if given.sums_only:
                _write(builder, builder.load(sums[index]), row, column, given)
                continue
            place = builder.add(builder.mul(segment, given.padded_columns), column)
            scaled = builder.fmul(
                builder.sitofp(builder.load(sums[index]), vector), _at(builder, given.scale, place, vector)
            )
            builder.store(builder.fadd(builder.load(kept[index]), scaled), kept[index])
    for slot, (row, column) in zip([] if given.sums_only else kept, places, strict=False):
        by_row = vectors.filled(builder, _at(builder, given.row_scale, row, vectors.FLOAT), vector)
        value = builder.fmul(builder.load(slot), by_row)
        _write(builder, builder.fadd(value, _at(builder, given.bias, column, vector)), row, column, given)


#: What a product reads and writes, in the order of the tuple that `tile` takes: arrays, but for three whole numbers.
OPERANDS = (
    "a",
    "b",
    "steps",
    "segments",
    "output",
    "columns",
    "row_scale",
    "row_zero",
    "row_adjust",
    "column_sums",
    "scale",
    "zero",
    "bias",
)


def _located(context: Any, builder: Any, types_of: Any, arguments: Any) -> _Operands:
    """Return the arguments of `tile` with each pointer at the first row, panel or column of the tile."""
    kinds = dict(zip(OPERANDS, types_of, strict=True))
    values = dict(zip(OPERANDS, cgutils.unpack_tuple(builder, arguments[-1]), strict=True))
    row, rows_left, panel, b_panel, walk, first = arguments[3:9]
    steps, segments, columns = values["steps"], values["segments"], values["columns"]

    def data(name: str, place: Any) -> Any:
        """Return the pointer to element ``place`` of an operand."""
        pointer = vectors.data_pointer(context, builder, kinds[name], values[name])
        return builder.gep(pointer, [place])

    chunks = builder.udiv(builder.add(steps, INDEX(3)), INDEX(4))
    row_bytes = builder.mul(builder.mul(segments, chunks), INDEX(CHUNK))
    panel_bytes = builder.mul(builder.mul(steps, segments), INDEX(STEP))
    column = builder.mul(panel, INDEX(PANEL))
    all_panels = builder.udiv(builder.add(columns, INDEX(PANEL - 1)), INDEX(PANEL))
    zero_array = context.make_array(kinds["zero"])(context, builder, values["zero"])
    return _Operands(
        a=data("a", builder.mul(row, row_bytes)),
        b=data("b", builder.mul(b_panel, panel_bytes)),
        fetched=data("b", builder.add(builder.mul(b_panel, panel_bytes), builder.extract_value(walk, 1))),
        fetch_stride=builder.extract_value(walk, 2),
        panel_bytes=builder.extract_value(walk, 0),
        steps=steps,
        segments=segments,
        output=data("output", builder.add(builder.mul(builder.add(first, row), columns), column)),
        columns=columns,
        rows_left=rows_left,
        columns_left=builder.sub(columns, column),
        row_scale=data("row_scale", row),
        row_zero=data("row_zero", row),
        row_adjust=data("row_adjust", builder.mul(row, segments)),
        column_sums=data("column_sums", column),
        padded_columns=builder.mul(all_panels, INDEX(PANEL)),
        scale=data("scale", column),
        zero=data("zero", column),
        has_zero=builder.icmp_signed(">", zero_array.nitems, INDEX(0)),
        bias=data("bias", column),
        sums_only=kinds["output"].dtype == types.int32,
    )


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def tile(
    typing: Any,
    marker: Any,
    rows: Any,
    panels: Any,
    row: Any,
    rows_left: Any,
    panel: Any,
    b_panel: Any,
    walk: Any,
    first: Any,
    operands: Any,
) -> Any:
    """Multiply ``rows`` rows of a from ``row`` on by ``panels`` panels, which lie in b from ``b_panel`` on.

    ``panel`` is the first one's number in the weight. ``walk`` are three whole numbers of bytes: from one of the panels
    to the next; from the first of them to where the caches are asked for what comes next; and from one such request to
    another (a line, or less where several tiles share them). The result goes to rows from ``first + row`` on of
    ``output``, as far as there are ``rows_left``. An output of int32 gets the sums. One of float32 gets them without
    the zero points, times both scales, plus the bias.
    """
    dot = DOTS[marker.ndim - 1]
    counts = rows.literal_value, panels.literal_value

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        given = _located(context, builder, signature.args[-1].types, arguments)
        some_rows = min(dot.rows, counts[0])
        some_panels = min(4 if some_rows <= 4 and dot.panels > 1 else dot.panels, counts[1])
        with (
            cgutils.for_range(builder, INDEX(-(-counts[0] // some_rows))) as by_row,
            cgutils.for_range(builder, INDEX(-(-counts[1] // some_panels))) as by_panel,
        ):
            first_row = builder.mul(by_row.index, INDEX(some_rows))
            first_panel = builder.mul(by_panel.index, INDEX(some_panels))
            _emit_part(builder, dot, first_row, some_rows, first_panel, some_panels, given)
        return context.get_dummy_value()

    whole = types.intp
    three = types.UniTuple(whole, 3)
    return types.void(marker, rows, panels, whole, whole, whole, whole, three, whole, operands), emit


@intrinsic  # type: ignore[untyped-decorator]
def copy_chunk(typing: Any, target: Any, to: Any, source: Any, start: Any) -> Any:
    """Copy 16 bytes from ``source[start:]`` to ``target[to:]``."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        vector = ir.VectorType(BYTE, CHUNK)
        pointers = [vectors.data_pointer(context, builder, signature.args[i], arguments[i]) for i in (0, 2)]
        value = _at(builder, pointers[1], arguments[3], vector)
        moved = builder.bitcast(builder.gep(pointers[0], [arguments[1]]), vector.as_pointer())
        builder.store(value, moved, align=1)
        return context.get_dummy_value()

    return types.void(target, types.intp, source, types.intp), emit
