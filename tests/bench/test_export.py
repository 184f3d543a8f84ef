"""The exported directory holds the file's weights and its tokenizer."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
from tokenizers import Tokenizer

from bench.export import export
from bench.quick import make_prompts
from paceline_engine.tokenizer import load_tokenizer
from paceline_engine.weights import open_checkpoint
from tests.support.model_file import model_file


@pytest.mark.model
def test_export_equals_its_source(tmp_path: Path) -> None:
    gguf = model_file()
    folder = export(gguf, tmp_path)
    try:
        with open_checkpoint(gguf) as source, open_checkpoint(folder) as copy:
            assert copy.config.num_parameters == source.config.num_parameters
            for name in ("model.embed_tokens.weight", "model.layers.29.self_attn.k_proj.weight"):
                assert np.array_equal(copy.tensor(name), source.tensor(name))
        tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        ours = load_tokenizer(str(gguf))
        for text in [*make_prompts(tokenizer, 4, 128, seed=1), "x = 12345 <|im_end|>\n"]:
            assert tokenizer.encode(text).ids == ours.encode(text)
        assert export(gguf, tmp_path) == folder
    finally:
        shutil.rmtree(folder)  # half a gigabyte, which pytest would keep
