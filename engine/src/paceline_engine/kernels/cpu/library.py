"""The compiled kernels behind the `Kernels` interface, called through ctypes."""

from __future__ import annotations

import ctypes
import math
from ctypes import c_float, c_int64, c_void_p
from pathlib import Path
from typing import Final

import torch

from paceline_engine.kernels.operands import LayerCache, RotaryTable, StepBatch

_POINTER, _INT, _FLOAT = c_void_p, c_int64, c_float
_SIGNATURES: Final = {
    "rms_norm": [_POINTER] * 3 + [_INT] * 2 + [_FLOAT],
    "add_rms_norm": [_POINTER] * 4 + [_INT] * 2 + [_FLOAT],
    "head_norm": [_POINTER] * 2 + [_INT] * 4 + [_FLOAT],
    "rope_store": [_POINTER] * 7 + [_INT] * 5,
    "paged_attention": [_POINTER] * 7 + [_FLOAT] + [_INT] * 8,
    "silu_mul": [_POINTER] * 2 + [_INT] * 2,
}
LANES: Final = 8


class CpuKernels:
    """C++ kernels; head width and block size are multiples of `LANES`.

    Args:
        path: Shared object. torch is in the process before it, so that its OpenMP runtime
            serves both and `torch.set_num_threads` holds for these kernels too.

    Raises:
        OSError: The file is no loadable library.
    """

    def __init__(self, path: Path) -> None:
        library = ctypes.CDLL(str(path))
        for name, argument_types in _SIGNATURES.items():
            function = getattr(library, f"paceline_{name}")
            function.argtypes, function.restype = argument_types, None
        self._rms_norm = library.paceline_rms_norm
        self._add_rms_norm = library.paceline_add_rms_norm
        self._head_norm = library.paceline_head_norm
        self._rope_store = library.paceline_rope_store
        self._paged_attention = library.paceline_paged_attention
        self._silu_mul = library.paceline_silu_mul

    def rms_norm(self, x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
        """See `Kernels.rms_norm`."""
        out = torch.empty_like(x)
        self._rms_norm(x.data_ptr(), weight.data_ptr(), out.data_ptr(), *x.shape, eps)
        return out

    def add_rms_norm(
        self, x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
    ) -> torch.Tensor:
        """See `Kernels.add_rms_norm`."""
        out = torch.empty_like(x)
        self._add_rms_norm(
            x.data_ptr(), residual.data_ptr(), weight.data_ptr(), out.data_ptr(), *x.shape, eps
        )
        return out

    def head_norm(self, qkv: torch.Tensor, weight: torch.Tensor, eps: float) -> None:
        """See `Kernels.head_norm`."""
        self._head_norm(qkv.data_ptr(), weight.data_ptr(), *qkv.shape, *weight.shape, eps)

    def rope_store(
        self, qkv: torch.Tensor, rotary: RotaryTable, batch: StepBatch, cache: LayerCache
    ) -> None:
        """See `Kernels.rope_store`."""
        rows, width = qkv.shape
        self._rope_store(
            qkv.data_ptr(),
            rotary.cosine.data_ptr(),
            rotary.sine.data_ptr(),
            batch.positions.data_ptr(),
            batch.slots.data_ptr(),
            cache.keys.data_ptr(),
            cache.values.data_ptr(),
            rows,
            width // cache.head_dim - 2 * cache.kv_heads,
            cache.kv_heads,
            cache.head_dim,
            cache.block_size,
        )

    def paged_attention(
        self, qkv: torch.Tensor, batch: StepBatch, cache: LayerCache, window: int = 0
    ) -> torch.Tensor:
        """See `Kernels.paged_attention`."""
        rows, width = qkv.shape
        heads = width // cache.head_dim - 2 * cache.kv_heads
        out = torch.empty(rows, heads * cache.head_dim)
        self._paged_attention(
            qkv.data_ptr(),
            cache.keys.data_ptr(),
            cache.values.data_ptr(),
            batch.tables.data_ptr(),
            batch.starts.data_ptr(),
            batch.contexts.data_ptr(),
            out.data_ptr(),
            1.0 / math.sqrt(cache.head_dim),
            batch.contexts.shape[0],
            heads,
            cache.kv_heads,
            cache.head_dim,
            cache.block_size,
            width,
            batch.tables.shape[1],
            window,
        )
        return out

    def silu_mul(self, gate_up: torch.Tensor) -> torch.Tensor:
        """See `Kernels.silu_mul`."""
        rows, width = gate_up.shape
        out = torch.empty(rows, width // 2)
        self._silu_mul(gate_up.data_ptr(), out.data_ptr(), rows, width // 2)
        return out
