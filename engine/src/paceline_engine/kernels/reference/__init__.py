"""Kernels in plain torch: slow, short, and what every other form is tested against."""

from paceline_engine.kernels.reference.kernels import ReferenceKernels

__all__ = ["ReferenceKernels"]
