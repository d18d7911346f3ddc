"""The register tile of the integer product: rows of unsigned bytes times panels of signed ones, sums in registers.

Rows lie as [tile of `ROWS`][segment][16 bytes of the depth][row][16], panels as [panel][segment][4 bytes of the
depth][column of 16][4]. A segment is a group of the depth that has scales of its own; without groups there is one.
"""

# ruff: noqa: ARG001 - a typing function names its arguments for those that it emits

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from tinytorch.perf.kernels.int8.instructions import DOTS, Dot, Prepared, emitters
from tinytorch.perf.kernels.runtime import vectors
from tinytorch.perf.ops.packed_codes import PANEL

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


def _at(builder: Any, pointer: Any, place: Any, vector: Any) -> Any:
    """Return the vector (or number) that begins at element ``place``, at any address."""
    return vectors.load(builder, pointer, place, vector, align=1)


#: Lanes of two vectors of four: the first halves of both and the last; and so that lanes of both take turns.
_HALVES, _TURNS = ((0, 1, 4, 5), (2, 3, 6, 7)), ((0, 4, 1, 5), (2, 6, 3, 7))


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
    emit = _Steps(builder, dot, rows, vectors_wide, sums, given.panel_bytes)
    lines = emit.steps * vectors_wide // (PANEL // dot.lanes)
    turns = builder.udiv(given.steps, INDEX(emit.steps))
    with cgutils.for_range(builder, turns) as loop:
        a_turn = builder.gep(a, [emit.place(loop.index)])
        b_turn = builder.gep(b, [builder.mul(loop.index, INDEX(emit.steps * STEP))])
        first_line = builder.mul(loop.index, INDEX(lines))
        for line in range(lines):
            far = builder.mul(builder.add(first_line, INDEX(line)), given.fetch_stride)
            vectors.prefetch(builder, builder.gep(fetched, [far]), locality=_SECOND_CACHE)
        emit.turn(a_turn, b_turn)
    a_rest = builder.gep(a, [emit.place(turns)])
    b_rest = builder.gep(b, [builder.mul(turns, INDEX(emit.steps * STEP))])
    with cgutils.for_range(builder, builder.urem(given.steps, INDEX(emit.steps))) as loop:
        emit.step(
            builder.gep(a_rest, [builder.mul(loop.index, INDEX(4))]),
            builder.gep(b_rest, [builder.mul(loop.index, INDEX(STEP))]),
        )
    emit.end()
    return sums


class _Steps:
    """Emits what adds to the sums of a tile: a turn of the depth's loop, and one step of what is left after them.

    Of a square the sums are those of two rows and two columns each, until `end` puts them into rows.
    """

    def __init__(self, builder: Any, dot: Dot, rows: int, wide: int, sums: list[Any], panel_bytes: Any) -> None:
        self.builder, self.dot, self.rows, self.wide, self.sums = builder, dot, rows, wide, sums
        self.panel_bytes, self.vector = panel_bytes, ir.VectorType(vectors.INT32, dot.lanes)
        self.unsigned, self.signed, self.add = emitters(builder, dot)
        #: Steps of a turn. With four of a square, LLVM arranges so many operands at once that sums leave the registers.
        self.steps = 2 if dot.square else _TURN

    def place(self, turn: Any) -> Any:
        """Return how many bytes after the first of a tile's rows those of a turn begin."""
        builder = self.builder
        if self.steps == _TURN:
            return builder.mul(turn, INDEX(ROWS * CHUNK))
        chunk, half = builder.lshr(turn, INDEX(1)), builder.and_(turn, INDEX(1))
        return builder.add(builder.mul(chunk, INDEX(ROWS * CHUNK)), builder.mul(half, INDEX(CHUNK // 2)))

    def turn(self, a_turn: Any, b_turn: Any) -> None:
        """Add the steps of a turn."""
        b_steps = [self.builder.gep(b_turn, [INDEX(STEP * number)]) for number in range(self.steps)]
        if self.dot.square:
            self._add_squares(self._pairs(a_turn, INDEX), *map(self._columns, b_steps))
            return
        rows = range(self.rows if self.dot.indexed else 0)
        chunk = [self.unsigned(self._row(a_turn, row, self.vector)) for row in rows]
        for number, b_step in enumerate(b_steps):
            if self.dot.indexed:
                self._add_rows(b_step, partial(self._lane, chunk, number))
            else:
                self._add_rows(b_step, partial(self._word, self.builder.gep(a_turn, [INDEX(4 * number)])))

    def step(self, a_step: Any, b_step: Any) -> None:
        """Add one step, which is half of what a square takes: the other half are zeros."""
        if self.dot.square:
            zeros = [ir.Constant(self.vector, None)] * self.wide
            self._add_squares(self._pairs(a_step, vectors.INT32), self._columns(b_step), zeros)
        else:
            self._add_rows(b_step, partial(self._word, a_step))

    def end(self) -> None:
        """Put sums of squares into rows."""
        for row in range(0, self.rows if self.dot.square else 0, 2):
            for index in range(self.wide):
                slots = [self.sums[each * self.wide + index] for each in (row, row + 1)]
                one, other = map(self.builder.load, slots)
                for slot, lanes in zip(slots, _HALVES, strict=True):
                    self.builder.store(self._chosen(one, other, lanes), slot)

    def _add_rows(self, b_step: Any, left_of: Callable[[int], Prepared]) -> None:
        """Add four of the depth, row by row."""
        right = [self.signed(each) for each in self._columns(b_step)]
        for row in range(self.rows):
            left = left_of(row)
            for index in range(self.wide):
                self._add(row, index, left, right[index])

    def _add_squares(self, pairs: Sequence[Any], first: Iterable[Any], then: Iterable[Any]) -> None:
        """Add eight of the depth to pairs of rows: ``first`` holds four bytes of each column, ``then`` the next."""
        lefts = [self.unsigned(pair) for pair in pairs]
        for index, (one, other) in enumerate(zip(first, then, strict=True)):
            for half, lanes in enumerate(_TURNS):
                right = self.signed(self._chosen(one, other, lanes))
                for pair, left in enumerate(lefts):
                    self._add(2 * pair + half, index, left, right)

    def _add(self, row: int, index: int, left: Prepared, right: Prepared) -> None:
        slot = self.sums[row * self.wide + index]
        self.builder.store(self.add(self.builder.load(slot), left, right), slot)

    def _columns(self, b_step: Any) -> Iterator[Any]:
        """Load the vectors of four bytes of each column, one after another."""
        builder, in_panel = self.builder, PANEL // self.dot.lanes
        for index in range(self.wide):
            panel, part = divmod(index, in_panel)
            place = builder.add(builder.mul(self.panel_bytes, INDEX(panel)), INDEX(part * self.dot.lanes * 4))
            yield _at(builder, b_step, place, self.vector)

    def _row(self, a_step: Any, row: int, kind: Any) -> Any:
        """Return what is there of a row."""
        return _at(self.builder, a_step, INDEX(row * CHUNK), kind)

    def _pairs(self, a_step: Any, kind: Any) -> list[Any]:
        """Return vectors of two rows each: of either a number of ``kind``, as a half."""
        builder, pairs = self.builder, []
        for row in range(0, self.rows, 2):
            pair = ir.Constant(ir.VectorType(INDEX, 2), None)
            for half in range(2):
                number = builder.zext(self._row(a_step, row + half, kind), INDEX)
                pair = builder.insert_element(pair, number, vectors.INT32(half))
            pairs.append(builder.bitcast(pair, self.vector))
        return pairs

    def _word(self, a_step: Any, row: int) -> Prepared:
        """Return four bytes of a row, in all lanes."""
        return self.unsigned(vectors.filled(self.builder, self._row(a_step, row, vectors.INT32), self.vector))

    def _lane(self, chunk: list[Prepared], number: int, row: int) -> Prepared:
        """Return one lane of a prepared row, in all lanes."""
        return tuple(self._chosen(each, each, [number] * self.dot.lanes) for each in chunk[row])

    def _chosen(self, one: Any, other: Any, lanes: Sequence[int]) -> Any:
        """Return the vector of some lanes of two vectors, counted through both."""
        kind = ir.VectorType(vectors.INT32, len(lanes))
        return self.builder.shuffle_vector(one, other, ir.Constant(kind, list(lanes)))


def _correct(
    builder: Any, dot: Dot, sums: list[Any], places: list[tuple[Any, Any]], segment: Any, given: _Operands
) -> None:
    """Take the zero points from int32 sums: Σ a b − z_a Σ b − z_b (Σ a − depth z_a), exact modulo 2^32.

    Where the instruction took ``dot.less`` from each a, as much less of z_a is left to take.
    """
    vector = ir.VectorType(vectors.INT32, dot.lanes)
    top = builder.mul(segment, given.padded_columns)
    for slot, (row, column) in zip(sums, places, strict=True):
        row_zero = _at(builder, given.row_zero, row, vectors.INT32)
        if dot.less:
            row_zero = builder.sub(row_zero, vectors.INT32(dot.less))
        row_zero = vectors.filled(builder, row_zero, vector)
        total = _at(builder, given.column_sums, builder.add(top, column), vector)
        builder.store(builder.sub(builder.load(slot), builder.mul(row_zero, total)), slot)
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
    shape = ir.FunctionType(ir.VoidType(), [kind, kind.as_pointer(), vectors.INT32, flags])
    name = f"llvm.masked.store.v{kind.count}f32.p0v{kind.count}f32"
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
        for index, (_, column) in enumerate(places):
            place = builder.add(builder.mul(segment, given.padded_columns), column)
            scaled = builder.fmul(
                builder.sitofp(builder.load(sums[index]), vector), _at(builder, given.scale, place, vector)
            )
            builder.store(builder.fadd(builder.load(kept[index]), scaled), kept[index])
    for slot, (row, column) in zip(kept, places, strict=True):
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
    the float32 ``output``, as far as there are ``rows_left``: sums without the zero points, times both scales, plus the
    bias.
    """
    dot = DOTS[marker.ndim - 1]
    counts = rows.literal_value, panels.literal_value
    if dot.square and counts[0] == 1:  # one row would be half of a square
        dot = next(each for each in DOTS if each.features == dot.features and not each.square)

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


@vectors.emitted()
def copy_chunk(builder: Any, target: Any, to: Any, source: Any, start: Any) -> None:
    """Copy 16 bytes from ``source[start:]`` to ``target[to:]``."""
    vector = ir.VectorType(BYTE, CHUNK)
    moved = builder.bitcast(builder.gep(target, [to]), vector.as_pointer())
    builder.store(_at(builder, source, start, vector), moved, align=1)
