from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator
from pathlib import Path

import gguf as gguf_py
import pytest
import torch
from transformers import AutoModelForCausalLM, PreTrainedModel
from transformers.utils.logging import disable_progress_bar

from tests.support.model_file import model_file


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> Iterator[None]:
    """Two threads wait for each other at every product while other tests use the cores."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def gguf() -> Path:
    return model_file()


@pytest.fixture(scope="session")
def oracle(gguf: Path) -> PreTrainedModel:
    """The same file as transformers reads, dequantises and computes it."""
    disable_progress_bar()
    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patched:
        warnings.simplefilter("ignore")  # transformers' own deprecations
        # It reads the file twice and makes the same names anew for every module: most of its time.
        for name in ("GGUFReader", "get_tensor_name_map"):
            patched.setattr(gguf_py, name, functools.cache(getattr(gguf_py, name)))
        model = AutoModelForCausalLM.from_pretrained(
            str(gguf.parent), gguf_file=gguf.name, dtype=torch.float32, attn_implementation="eager"
        )
    return model.eval()
