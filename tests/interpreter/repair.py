"""What Triton's interpreter gets wrong with bfloat16 and 8-bit floats, done as a GPU does it; for tests only.

The interpreter keeps these numbers as integers: it multiplies and compares their bits, cuts the tail off when it casts
to bfloat16, and casts wrongly to 8 bits near powers of two. Here they are computed in float32 and rounded by torch: to
nearest even, and to 8 bits with saturation.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import triton.language as tl
from triton.runtime import interpreter

Builder, Handle = interpreter.InterpreterBuilder, interpreter.TensorHandle
STORED: dict[Any, tuple[torch.dtype, torch.dtype]] = {
    tl.bfloat16: (torch.bfloat16, torch.int16),
    tl.float8e4nv: (torch.float8_e4m3fn, torch.uint8),
    tl.float8e5: (torch.float8_e5m2, torch.uint8),
}
"""Triton's type -> torch's, and the torch integer of the same size that NumPy knows."""
BITWISE = (np.bitwise_and, np.bitwise_or, np.bitwise_xor, np.left_shift, np.right_shift)


def repair() -> None:
    """Put the repair in place, in this process, once."""
    if Builder.create_dot is not _dot:
        for name, new in _REPAIRED.items():
            setattr(Builder, name, new)


def _stored(*types: Any) -> bool:
    return any(t.scalar in STORED for t in types)


def _widen(data: Any, dtype: Any) -> Any:
    """The values of an array of the interpreter as float32."""
    if dtype.scalar not in STORED:
        return data.astype(np.float32)
    floats, ints = STORED[dtype.scalar]
    bits = np.ascontiguousarray(data).view(np.int16 if ints == torch.int16 else np.uint8)
    return torch.from_numpy(bits.copy()).view(floats).float().numpy()


def _narrow(data: Any, dtype: Any) -> Any:
    """Float32 values as the interpreter stores ``dtype``."""
    if dtype.scalar not in STORED:
        return data.astype(interpreter._get_np_dtype(dtype))
    floats, ints = STORED[dtype.scalar]
    values = torch.from_numpy(np.array(data, dtype=np.float32))
    if floats != torch.bfloat16:
        top = torch.finfo(floats).max
        values = torch.where(values.isnan(), values, values.clamp(-top, top))
    return values.to(floats).view(ints).numpy().view(interpreter._get_np_dtype(dtype))


def _cast(self: Any, source: Any, dtype: Any) -> Any:
    if not _stored(source.dtype, dtype):
        return _ORIGINAL["cast_impl"](self, source, dtype)
    return Handle(_narrow(_widen(source.data, source.dtype), dtype), dtype.scalar)


def _float_cast(self: Any, source: Any, dtype: Any, rounding: Any) -> Any:
    if rounding == interpreter._ir.ROUNDING_MODE.RTZ or not _stored(source.dtype, dtype):
        return _ORIGINAL["create_fp_to_fp"](self, source, dtype, rounding)
    return _cast(self, source, dtype)


def _dot(self: Any, a: Any, b: Any, start: Any, precision: Any, imprecise: Any) -> Any:
    if not _stored(a.dtype, b.dtype):
        return _ORIGINAL["create_dot"](self, a, b, start, precision, imprecise)
    product = np.matmul(_widen(a.data, a.dtype), _widen(b.data, b.dtype))
    return Handle(product + start.data, start.dtype.scalar)


def _binary(self: Any, a: Any, b: Any, op: Callable[..., Any]) -> Any:
    if op in BITWISE or not (_stored(a.dtype) and _stored(b.dtype)):
        return _ORIGINAL["binary_op"](self, a, b, op)
    out = op(_widen(a.data, a.dtype), _widen(b.data, b.dtype))
    if out.dtype == np.bool_:
        return Handle(out, tl.int1)
    return Handle(_narrow(out, a.dtype), a.dtype.scalar)


def _unary(self: Any, x: Any, op: Callable[..., Any]) -> Any:
    if not _stored(x.dtype):
        return _ORIGINAL["unary_op"](self, x, op)
    return Handle(_narrow(op(_widen(x.data, x.dtype)), x.dtype), x.dtype.scalar)


_REPAIRED = {
    "cast_impl": _cast,
    "create_fp_to_fp": _float_cast,
    "create_dot": _dot,
    "binary_op": _binary,
    "unary_op": _unary,
}
_ORIGINAL = {name: getattr(Builder, name) for name in _REPAIRED}
