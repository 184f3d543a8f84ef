"""The compiled kernels where they can run, else the reference and one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from paceline_engine.kernels.choice import choose_kernels
from paceline_engine.kernels.cpu import artifact
from paceline_engine.kernels.cpu.library import CpuKernels
from paceline_engine.kernels.reference import ReferenceKernels


def test_compiled_kernels_are_chosen(caplog: pytest.LogCaptureFixture) -> None:
    assert isinstance(choose_kernels(64, 16), CpuKernels)
    assert caplog.records == []


@pytest.mark.parametrize(("head_dim", "block_size"), [(12, 16), (64, 4)])
def test_odd_shapes_fall_back(
    head_dim: int, block_size: int, caplog: pytest.LogCaptureFixture
) -> None:
    assert isinstance(choose_kernels(head_dim, block_size), ReferenceKernels)
    (record,) = caplog.records
    assert "no multiple of 8" in record.getMessage()


def test_without_a_file_torch_computes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(artifact.DIRECTORY_VARIABLE, str(tmp_path))
    assert isinstance(choose_kernels(64, 16), ReferenceKernels)
    (record,) = caplog.records
    assert "paceline_engine.kernels.cpu.build" in record.getMessage()


def test_a_damaged_file_falls_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(artifact.DIRECTORY_VARIABLE, str(tmp_path))
    (tmp_path / artifact.file_name()).write_bytes(b"\x7fELF but not really")
    assert isinstance(choose_kernels(64, 16), ReferenceKernels)
    assert len(caplog.records) == 1
