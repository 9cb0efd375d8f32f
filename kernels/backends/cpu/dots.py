"""Dot products of a row of x with a row of packed codes, written out as vectors of eight for numba to compile.

numba's own vectoriser leaves loops over short groups scalar: 5 to 9 times slower. LLVM lowers these to whatever the
processor has. Scales of 16 bits are read as float16.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic

COLUMNS = 32
"""Least columns per scale; sums of x are over this many."""
_FAST = ("reassoc", "contract")
_F32, _F16, _I8, _I16, _I32, _I64 = (
    ir.FloatType(),
    ir.HalfType(),
    ir.IntType(8),
    ir.IntType(16),
    ir.IntType(32),
    ir.IntType(64),
)
_FLOATS, _WORDS, _BYTES = (ir.VectorType(t, 8) for t in (_F32, _I32, _I8))


class _Rows:
    """A two-dimensional array argument: pointer to a row, and its length."""

    def __init__(self, build: tuple[Any, Any], kind: Any, array: Any, row: Any) -> None:
        context, self.b = build
        struct = context.make_array(kind)(context, self.b, array)
        self.columns = cgutils.unpack_tuple(self.b, struct.shape)[1]
        self.half = kind.dtype == types.uint16
        data = self.b.bitcast(struct.data, _F16.as_pointer()) if self.half else struct.data
        self.start = self.b.gep(data, [self.b.mul(row, self.columns)])

    def vector(self, at: Any, kind: Any, align: int) -> Any:
        """Eight elements."""
        where = self.b.bitcast(self.b.gep(self.start, [at]), kind.as_pointer())
        return self.b.load(where, align=align)

    def float(self, at: Any) -> Any:
        """One element as float32."""
        value = self.b.load(self.b.gep(self.start, [at]))
        return self.b.fpext(value, _F32) if self.half else value


def _const(value: int) -> Any:
    return ir.Constant(_I64, value)


def _pair(b: Any, low: Any, high: Any) -> Any:
    """Eight lanes: four of one value, four of another."""
    nothing = ir.Constant(_FLOATS, ir.Undefined)
    both = b.insert_element(nothing, low, ir.Constant(_I32, 0))
    both = b.insert_element(both, high, ir.Constant(_I32, 1))
    return b.shuffle_vector(both, nothing, ir.Constant(_WORDS, [0] * 4 + [1] * 4))


def _sum(b: Any, parts: Sequence[Any]) -> Any:
    total = parts[0]
    for part in parts[1:]:
        total = b.fadd(total, part, flags=_FAST)
    return total


def _lanes(b: Any, vector: Any) -> Any:
    return _sum(b, [b.extract_element(vector, ir.Constant(_I32, i)) for i in range(8)])


def _add(b: Any, slot: Any, term: Any) -> None:
    b.store(b.fadd(b.load(slot), term, flags=_FAST), slot)


def _slot(b: Any, kind: Any) -> Any:
    slot = cgutils.alloca_once(b, kind)
    b.store(ir.Constant(kind, [0.0] * 8 if kind is _FLOATS else 0.0), slot)
    return slot


@intrinsic  # type: ignore[untyped-decorator]
def dot_q8(typing: Any, x: Any, m: Any, w: Any, n: Any, scale: Any, shift: Any) -> Any:
    """Sum of x[m] * w[n] * scale: w int8, scale[n, column >> 5 >> shift]; columns a multiple of 32."""

    def generate(context: Any, b: Any, sig: Any, args: Any) -> Any:
        rows = [_Rows((context, b), sig.args[i], args[i], args[j]) for i, j in ((0, 1), (2, 3), (4, 3))]
        xs, ws, scales = rows
        total = _slot(b, _FLOATS)
        with cgutils.for_range(b, b.udiv(ws.columns, _const(COLUMNS))) as loop:
            terms = []
            for j in range(0, COLUMNS, 8):
                at = b.add(b.mul(loop.index, _const(COLUMNS)), _const(j))
                code = b.sitofp(ws.vector(at, _BYTES, 1), _FLOATS)
                terms.append(b.fmul(code, xs.vector(at, _FLOATS, 4), flags=_FAST))
            s = scales.float(b.lshr(loop.index, args[5]))
            _add(b, total, b.fmul(_sum(b, terms), _pair(b, s, s), flags=_FAST))
        return _lanes(b, b.load(total))

    return types.float32(x, m, w, n, scale, types.int64), generate


@intrinsic  # type: ignore[untyped-decorator]
def dot_w4(typing: Any, x: Any, m: Any, sums: Any, w: Any, n: Any, scale: Any, zero: Any, shift: Any) -> Any:
    """Sum of x[m] * (code * scale + zero) over an even number of blocks of 32 columns.

    x is interleaved (``few_rows._interleave``), sums are those of each 32 columns of x[m], w holds eight codes in an
    int32, scale and zero are [n, column >> 5 >> shift].
    """

    def generate(context: Any, b: Any, sig: Any, args: Any) -> Any:
        xs, xsums, ws, scales, zeros = (
            _Rows((context, b), sig.args[i], args[i], args[j]) for i, j in ((0, 1), (2, 1), (3, 4), (5, 4), (6, 4))
        )
        total, offset = _slot(b, _FLOATS), _slot(b, _F32)
        with cgutils.for_range(b, b.udiv(ws.columns, _const(8))) as loop:
            words = ws.vector(b.mul(loop.index, _const(8)), _WORDS, 4)
            terms = []
            for j in range(8):
                bits = b.lshr(words, ir.Constant(_WORDS, [4 * j] * 8)) if j else words
                code = b.sitofp(b.and_(bits, ir.Constant(_WORDS, [15] * 8)), _FLOATS)
                at = b.add(b.mul(loop.index, _const(64)), _const(8 * j))
                terms.append(b.fmul(code, xs.vector(at, _FLOATS, 4), flags=_FAST))
            blocks = [b.add(b.mul(loop.index, _const(2)), _const(i)) for i in range(2)]
            groups = [b.lshr(block, args[7]) for block in blocks]
            s = _pair(b, *(scales.float(g) for g in groups))
            _add(b, total, b.fmul(_sum(b, terms), s, flags=_FAST))
            for block, group in zip(blocks, groups, strict=True):
                _add(b, offset, b.fmul(xsums.float(block), zeros.float(group), flags=_FAST))
        return b.fadd(_lanes(b, b.load(total)), b.load(offset), flags=_FAST)

    return types.float32(x, m, sums, w, n, scale, zero, types.int64), generate
