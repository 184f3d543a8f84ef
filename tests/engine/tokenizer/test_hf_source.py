"""Hugging Face directories, against transformers reading the same files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, decoders, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Library
from tokenizers.models import BPE, WordPiece

from paceline_engine.tokenizer import (
    Tokenizer,
    TokenizerLoadError,
    UnsupportedTokenizerError,
    load_tokenizer,
)
from paceline_engine.tokenizer.gguf_source import tokenizer_metadata
from tests.engine.tokenizer.fixtures.texts import texts

CHAT = [
    {"role": "user", "content": "Héllo 123 \U0001f6b4"},
    {"role": "assistant", "content": "Hi!"},
    {"role": "user", "content": "  Pace? "},
]


def smollm2_library(metadata: dict[str, Any]) -> Library:
    tokens, merges = metadata["tokenizer.ggml.tokens"], metadata["tokenizer.ggml.merges"]
    pairs = [tuple(merge.split(" ")) for merge in merges]
    library = Library(BPE(vocab={t: i for i, t in enumerate(tokens)}, merges=pairs))
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(False)]
    )
    library.decoder = decoders.ByteLevel()
    types = metadata["tokenizer.ggml.token_type"]
    library.add_special_tokens([t for t, kind in zip(tokens, types, strict=True) if kind == 3])
    return library


@pytest.fixture(scope="module")
def folder(model_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The model's tokenizer in the form of a Hugging Face directory."""
    path = tmp_path_factory.mktemp("smollm2")
    metadata = tokenizer_metadata(model_path)
    smollm2_library(dict(metadata)).save(str(path / "tokenizer.json"))
    write(
        path / "tokenizer_config.json",
        tokenizer_class="PreTrainedTokenizerFast",
        bos_token="<|im_start|>",
        eos_token="<|im_end|>",
        chat_template=metadata["tokenizer.chat_template"],
    )
    write(path / "config.json", model_type="llama", vocab_size=49_160, eos_token_id=2)
    write(path / "generation_config.json", eos_token_id=[2, 0])
    return path


def write(path: Path, **content: Any) -> None:
    path.write_text(json.dumps(content))


@pytest.mark.model
def test_ids_are_those_of_the_gguf_file(folder: Path, smollm2: Tokenizer) -> None:
    loaded = load_tokenizer(str(folder))
    for text in texts():
        assert loaded.encode(text) == smollm2.encode(text)
        assert loaded.encode(text, parse_special=False) == smollm2.encode(text, parse_special=False)
    assert loaded.apply_chat_template(CHAT) == smollm2.apply_chat_template(CHAT)
    assert loaded.eos_token_ids == smollm2.eos_token_ids


@pytest.mark.model
@pytest.mark.slow
def test_ids_and_chats_are_those_of_transformers(folder: Path) -> None:
    from transformers import AutoTokenizer  # noqa: PLC0415 (takes seconds; no other test needs it)

    theirs, ours = AutoTokenizer.from_pretrained(folder), load_tokenizer(str(folder))
    for text in texts():
        assert ours.encode(text) == theirs.encode(text)
    for prompt in (True, False):
        asked = theirs.apply_chat_template(
            CHAT, tokenize=True, add_generation_prompt=prompt, return_dict=False
        )
        assert ours.apply_chat_template(CHAT, add_generation_prompt=prompt) == asked


@pytest.mark.model
def test_padding_rows_of_the_model_are_no_ids(folder: Path) -> None:
    loaded = load_tokenizer(str(folder))
    assert loaded.vocab_size == 49_152  # `config.json` says 49,160
    assert loaded.decode([49_151]) != ""


def tiny(**changes: Any) -> Library:
    library = Library(BPE(vocab={"a": 0, "b": 1, "ab": 2, "Ġ": 3}, merges=[("a", "b")]))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens([AddedToken("<s>", lstrip=True), AddedToken("<|im_end|>")])
    library.add_tokens(["<user>"])
    for name, part in changes.items():
        setattr(library, name, part)
    return library


def saved(library: Library, folder: Path, **options: Any) -> Path:
    library.save(str(folder / "tokenizer.json"))
    if options:
        write(folder / "tokenizer_config.json", **options)
    return folder


def test_added_tokens_keep_their_manners(tmp_path: Path) -> None:
    loaded = load_tokenizer(str(saved(tiny(), tmp_path)))
    assert loaded.encode("ab <s>a<user>") == [2, 4, 0, 6]
    assert loaded.decode([2, 4, 6]) == "ab<user>"
    assert loaded.eos_token_ids == (5,)
    assert not loaded.has_chat_template


def test_a_post_processor_may_put_one_bos(tmp_path: Path) -> None:
    around = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 4)])
    loaded = load_tokenizer(str(saved(tiny(post_processor=around), tmp_path)))
    assert loaded.encode("ab") == [4, 2]
    assert loaded.encode("<s>ab") == [4, 2]


@pytest.mark.parametrize(
    "template", ["{{ bos_token }}b", [{"name": "rag", "template": "a"},
                                      {"name": "default", "template": "{{ bos_token }}b"}]],
)  # fmt: skip
def test_the_template_is_in_the_options(tmp_path: Path, template: Any) -> None:
    options = {"chat_template": template, "bos_token": {"content": "<s>"}}
    loaded = load_tokenizer(str(saved(tiny(), tmp_path, **options)))
    assert loaded.apply_chat_template([]) == [4, 1]


def test_a_template_file_wins(tmp_path: Path) -> None:
    saved(tiny(), tmp_path, chat_template="a", bos_token="<s>")
    (tmp_path / "chat_template.jinja").write_text("{{ bos_token }}ab")
    assert load_tokenizer(str(tmp_path)).apply_chat_template([]) == [4, 2]


def test_templates_without_a_name_are_passed_over(tmp_path: Path) -> None:
    folder = saved(tiny(), tmp_path, chat_template=["a", {"template": "b"}, {"name": "default"}])
    assert not load_tokenizer(str(folder)).has_chat_template


def two_around() -> processors.PostProcessor:
    return processors.TemplateProcessing(
        single="<s> $A <|im_end|>", special_tokens=[("<s>", 4), ("<|im_end|>", 5)]
    )


@pytest.mark.parametrize(
    ("library", "message"),
    [
        (Library(WordPiece({"[UNK]": 0})), "model WordPiece, decoder None"),
        (tiny(decoder=decoders.Metaspace()), "model BPE, decoder Metaspace"),
        (tiny(normalizer=normalizers.NFKC()), "normalizer NFKC"),
        (tiny(post_processor=two_around()), "puts 2 tokens around a prompt"),
    ],
)
def test_unknown_kinds_are_refused_in_one_line(
    tmp_path: Path, library: Library, message: str
) -> None:
    with pytest.raises(UnsupportedTokenizerError) as refused:
        load_tokenizer(str(saved(library, tmp_path)))
    assert message in str(refused.value)
    assert str(tmp_path) in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("tokenizer.json", None, "does not exist"),
        ("tokenizer.json", "{", "no readable JSON"),
        ("tokenizer.json", "[]", "not a JSON object"),
        ("tokenizer.json", '{"model": []}', "model is not a JSON object"),
        ("tokenizer.json", '{"model": {}, "decoder": "x"}', "decoder is not a JSON object"),
        ("tokenizer.json", '{"normalizer": [1]}', "normalizer is not a JSON object"),
        ("tokenizer.json", "[" * 100_000, "nested too deeply"),
        ("chat_template.jinja", "\xff", "chat_template.jinja is broken"),
        ("tokenizer_config.json", "{", "no readable JSON"),
        ("config.json", "\xff", "no readable JSON"),
        ("config.json", '{"eos_token_id": 7}', "eos_token_id 7 is none of its 7 ids"),
        ("generation_config.json", '{"eos_token_id": ["x"]}', "eos_token_id x is none of"),
        ("tokenizer_config.json", '{"chat_template": "{% if %}"}', "chat template, line 1"),
    ],
)
def test_broken_files_are_named_in_one_line(
    tmp_path: Path, name: str, content: str | None, message: str
) -> None:
    saved(tiny(), tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    if content is not None:
        (tmp_path / name).write_bytes(content.encode("latin-1"))
    with pytest.raises(TokenizerLoadError, match=message) as refused:
        load_tokenizer(str(tmp_path))
    assert "\n" not in str(refused.value)


def test_a_pipeline_the_library_rejects_is_one_line(tmp_path: Path) -> None:
    description = json.loads(tiny().to_str())
    description["model"]["merges"] = [["a", "q"]]
    write(tmp_path / "tokenizer.json", **description)
    with pytest.raises(TokenizerLoadError, match=r"tokenizer\.json: is broken") as refused:
        load_tokenizer(str(tmp_path))
    assert "\n" not in str(refused.value)


POST_PROCESSORS: dict[str, tuple[Any, str]] = {
    "a token it does not define": (
        {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}],
         "pair": [], "special_tokens": {}},
        "its template lacks '<s>'",
    ),
    "a token outside the vocabulary": (
        {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}],
         "pair": [], "special_tokens": {"<s>": {"id": "<s>", "ids": [99], "tokens": ["<s>"]}}},
        "begins prompts with 99",
    ),
    "no template": ({"type": "TemplateProcessing"}, "lacks a list"),
    "another kind": ({"type": "RobertaProcessing", "sep": ["a", 0]}, "RobertaProcessing is not"),
    "a list": ([], "post_processor is not a JSON object"),
}  # fmt: skip


@pytest.mark.behaviour(
    "a tokenizer.json that the library would panic over is refused in one line",
    report="corrupt model files: a panic of a library ends the process",
)
@pytest.mark.parametrize(
    ("processor", "message"), POST_PROCESSORS.values(), ids=POST_PROCESSORS.keys()
)
def test_what_is_put_around_a_prompt_is_checked(
    tmp_path: Path, processor: Any, message: str
) -> None:
    description = json.loads(tiny().to_str())
    write(tmp_path / "tokenizer.json", **(description | {"post_processor": processor}))
    with pytest.raises(TokenizerLoadError, match=message) as refused:
        load_tokenizer(str(tmp_path))
    assert "\n" not in str(refused.value)


def test_post_processors_in_a_row_may_put_one_bos(tmp_path: Path) -> None:
    """As Llama 3 has them."""
    around = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 4)])
    row = processors.Sequence([processors.ByteLevel(trim_offsets=False), around])
    loaded = load_tokenizer(str(saved(tiny(post_processor=row), tmp_path)))
    assert loaded.encode("ab") == [4, 2]


@pytest.mark.behaviour(
    "plain text never becomes a special token, not even where the vocabulary's merges make one",
    report="prompt injection: text of a message turns into a control token",
)
def test_merges_cannot_forge_a_special_token(tmp_path: Path) -> None:
    vocabulary = {"<": 0, "s": 1, ">": 2, "s>": 3, "<s>": 4}
    library = Library(BPE(vocab=vocabulary, merges=[("s", ">"), ("<", "s>")]))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.decoder = decoders.ByteLevel()
    library.add_special_tokens(["<s>"])
    loaded = load_tokenizer(str(saved(library, tmp_path)))
    assert loaded.encode("<s>") == [4]
    assert loaded.encode("<s>", parse_special=False) == [0, 3]
