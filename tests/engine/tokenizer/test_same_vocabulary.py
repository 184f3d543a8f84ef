"""GGUF and Hugging Face forms of one vocabulary, trained here, give the same ids and texts."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Regex, decoders, normalizers, pre_tokenizers, processors
from tokenizers import Tokenizer as Library
from tokenizers.models import BPE
from tokenizers.trainers import BpeTrainer

from paceline_engine.tokenizer import (
    Tokenizer,
    TokenizerLoadError,
    UnsupportedTokenizerError,
    load_tokenizer,
)
from paceline_engine.tokenizer.gguf_source import tokenizer_from_metadata
from tests.engine.tokenizer.fixtures.texts import texts

CHAT = [{"role": "user", "content": "Hi <s> there"}, {"role": "assistant", "content": "a"}]
TEMPLATE = (
    "{% for m in messages %}{{ bos_token }}{{ m.role }}: {{ m.content }}{{ eos_token }}\n"
    "{% endfor %}"
)
# As published with the families' tokenizers.
LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def by_regex(pattern: str) -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(pattern), behavior="isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )


def by_digit() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )


def trained(cut: pre_tokenizers.PreTokenizer, *, composes: bool, whole_words: bool) -> Library:
    library = Library(BPE(ignore_merges=whole_words))
    library.pre_tokenizer = cut
    library.decoder = decoders.ByteLevel()
    if composes:
        library.normalizer = normalizers.NFC()
    trainer = BpeTrainer(
        vocab_size=900,
        special_tokens=["<s>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    library.train_from_iterator(texts(), trainer)
    return library


BYTE_LEVEL: dict[str, Callable[[], Library]] = {
    "smollm": lambda: trained(by_digit(), composes=False, whole_words=False),
    "llama-bpe": lambda: trained(by_regex(LLAMA3), composes=False, whole_words=True),
    "qwen2": lambda: trained(by_regex(QWEN2), composes=True, whole_words=False),
}


def directory_of(library: Library, folder: Path) -> Tokenizer:
    library.save(str(folder / "tokenizer.json"))
    options = {"bos_token": "<s>", "eos_token": "<|im_end|>", "chat_template": TEMPLATE}
    (folder / "tokenizer_config.json").write_text(json.dumps(options))
    return load_tokenizer(str(folder))


def metadata_of(library: Library) -> dict[str, Any]:
    description = json.loads(library.to_str())
    tokens = [library.id_to_token(n) for n in range(library.get_vocab_size())]
    specials = {token["content"] for token in description["added_tokens"]}
    return {
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.token_type": [3 if token in specials else 1 for token in tokens],
        "tokenizer.ggml.bos_token_id": tokens.index("<s>"),
        "tokenizer.ggml.eos_token_id": tokens.index("<|im_end|>"),
        "tokenizer.chat_template": TEMPLATE,
    }


def assert_the_same(one: Tokenizer, other: Tokenizer) -> None:
    for text in texts():
        ids = one.encode(text)
        assert other.encode(text) == ids, repr(text[:80])
        plain = one.encode(text, parse_special=False)
        assert other.encode(text, parse_special=False) == plain
        assert not {token.token_id for token in one.vocabulary.specials} & set(plain[1:])
        for skip in (True, False):
            assert other.decode(ids, skip_special=skip) == one.decode(ids, skip_special=skip)
    assert one.apply_chat_template(CHAT) == other.apply_chat_template(CHAT)
    assert one.eos_token_ids == other.eos_token_ids
    assert one.vocab_size == other.vocab_size


@pytest.mark.behaviour(
    "a tokenizer built from GGUF gives the ids of the Hugging Face one, for every kind",
    report="ids of a GGUF model differ from the original's: digits, white space, composed letters",
)
@pytest.mark.parametrize("kind", BYTE_LEVEL)
def test_byte_level(tmp_path: Path, kind: str) -> None:
    library = BYTE_LEVEL[kind]()
    merges = json.loads(library.to_str())["model"]["merges"]
    metadata = metadata_of(library) | {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": kind,
        "tokenizer.ggml.add_bos_token": False,
        "tokenizer.ggml.merges": [" ".join(pair) for pair in merges],
    }
    ours = directory_of(library, tmp_path)
    assert_the_same(ours, tokenizer_from_metadata(metadata))
    for text in texts():
        plain = library.encode(text, add_special_tokens=False).ids
        assert ours.encode(text) == plain, repr(text[:80])


def sentence_pieces() -> tuple[list[str], list[float]]:
    """Tokens and scores as SentencePiece trains them: the earlier joined, the higher."""
    library = Library(BPE(unk_token="<unk>"))
    library.normalizer = normalizers.Replace(" ", "\u2581")
    trainer = BpeTrainer(
        vocab_size=1_200, limit_alphabet=150, special_tokens=["<unk>"], show_progress=False
    )
    library.train_from_iterator((f" {text}" for text in texts()), trainer)
    vocabulary = library.get_vocab()
    learnt = sorted((token for token in vocabulary if token != "<unk>"), key=vocabulary.__getitem__)
    learnt.sort(key=len)  # single characters come last in SentencePiece's order of ids
    joined = sorted((t for t in learnt if len(t) > 1), key=vocabulary.__getitem__)
    single = [token for token in learnt if len(token) == 1]
    assert len(joined) > 1_000
    head = ["<unk>", "<s>", "<|im_end|>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces = [token for token in joined + single if token not in head]
    return head + pieces, [0.0] * len(head) + [-float(n) for n in range(len(pieces))]


def merges_of(tokens: list[str], scores: list[float]) -> Iterator[tuple[str, str]]:
    """As transformers' SentencePieceExtractor orders them."""
    known = {token: token_id for token_id, token in enumerate(tokens)}
    found = []
    for token, score in zip(tokens, scores, strict=True):
        pairs = [(token[:cut], token[cut:], score) for cut in range(1, len(token))]
        pairs = [pair for pair in pairs if pair[0] in known and pair[1] in known]
        found += sorted(pairs, key=lambda pair: (known[pair[0]], known[pair[1]]))
    found.sort(key=lambda pair: (pair[2], len(pair[0]), len(pair[1])), reverse=True)
    return ((left, right) for left, right, _ in found)


def piece_library(tokens: list[str], scores: list[float], form: str) -> Library:
    library = Library(
        BPE(
            vocab={token: token_id for token_id, token in enumerate(tokens)},
            merges=list(merges_of(tokens, scores)),
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    if form == "normalizer":
        library.normalizer = normalizers.Sequence(
            [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
        )
    else:
        library.pre_tokenizer = pre_tokenizers.Metaspace(
            replacement="\u2581", prepend_scheme=form, split=False
        )
    library.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    special = [AddedToken(t, normalized=False, special=True) for t in tokens[:3]]
    library.add_special_tokens(special)
    library.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return library


def piece_metadata(library: Library, scores: list[float]) -> dict[str, Any]:
    metadata = metadata_of(library)
    kinds = [2, 3, 3, *[6] * 256]
    kinds += [1] * (len(scores) - len(kinds))
    return metadata | {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.scores": scores,
        "tokenizer.ggml.token_type": kinds,
    }


@pytest.fixture(scope="module")
def pieces() -> tuple[list[str], list[float]]:
    return sentence_pieces()


@pytest.mark.behaviour(
    "SentencePiece vocabularies (Llama 2, Mistral) give the same ids from GGUF and Hugging Face",
    report="a space too many or too few, or bytes instead of characters, with Llama and Mistral",
)
def test_sentence_pieces(tmp_path: Path, pieces: tuple[list[str], list[float]]) -> None:
    library = piece_library(*pieces, "normalizer")
    ours = directory_of(library, tmp_path)
    assert_the_same(ours, tokenizer_from_metadata(piece_metadata(library, pieces[1])))
    ids = ours.encode("The quick brown fox \U0001f6b4")
    assert ids == [1, *library.encode("The quick brown fox \U0001f6b4").ids[1:]]
    assert any(token_id > 258 and len(pieces[0][token_id]) > 2 for token_id in ids)
    assert any(2 < token_id < 259 for token_id in ids)


@pytest.mark.parametrize("form", ["normalizer", "always", "first", "never"])
def test_each_way_to_put_the_first_space(
    tmp_path: Path, pieces: tuple[list[str], list[float]], form: str
) -> None:
    library = piece_library(*pieces, form)
    ours = directory_of(library, tmp_path)
    for text in texts():
        ids = library.encode(text).ids
        assert ours.encode(text) == (ids if ids[1:2] != [1] else ids[1:]), repr(text[:80])
        assert ours.decode(ids) == library.decode(ids), repr(text[:80])


def test_an_output_keeps_the_space_it_begins_with(
    tmp_path: Path, pieces: tuple[list[str], list[float]]
) -> None:
    """An output goes on from a prompt; a whole text does not."""
    ours = directory_of(piece_library(*pieces, "normalizer"), tmp_path)
    ids = ours.encode("the pace")[1:]
    assert ours.decode(ids) == "the pace"
    decoder = ours.incremental_decoder()
    assert "".join([decoder.push([token]) for token in ids]) + decoder.flush() == " the pace"


def test_bytes_of_one_character_are_held_back(
    tmp_path: Path, pieces: tuple[list[str], list[float]]
) -> None:
    ours = directory_of(piece_library(*pieces, "never"), tmp_path)
    ids = [3 + byte for byte in "\U0001f9ff".encode()]
    decoder = ours.incremental_decoder()
    assert [decoder.push([token]) for token in ids] == ["", "", "", "\U0001f9ff"]


def test_what_cannot_be_done_right_is_refused(pieces: tuple[list[str], list[float]]) -> None:
    tokens, scores = pieces
    whole = piece_metadata(piece_library(tokens, scores, "normalizer"), scores)
    changes: list[tuple[dict[str, Any], type[TokenizerLoadError], str]] = [
        ({"scores": None}, TokenizerLoadError, "lacks tokenizer.ggml.scores"),
        ({"scores": [float("nan")] * len(scores)}, TokenizerLoadError, "not finite"),
        ({"remove_extra_whitespaces": True}, UnsupportedTokenizerError, "extra_whitespaces"),
        ({"precompiled_charsmap": [1]}, UnsupportedTokenizerError, "precompiled_charsmap"),
        (
            {"tokens": ["<0x1>" if t == "<0x01>" else t for t in tokens]},
            TokenizerLoadError,
            "is marked as a byte",
        ),
    ]
    for change, error, message in changes:
        changed = whole | {f"tokenizer.ggml.{key}": value for key, value in change.items()}
        with pytest.raises(error, match=message):
            tokenizer_from_metadata(changed)


def test_a_missing_byte_is_refused(pieces: tuple[list[str], list[float]]) -> None:
    tokens, scores = pieces
    whole = piece_metadata(piece_library(tokens, scores, "normalizer"), scores)
    kinds = [1 if t == "<0x01>" else k for t, k in zip(tokens, whole["tokenizer.ggml.token_type"],
                                                      strict=True)]  # fmt: skip
    renamed = ["other" if token == "<0x01>" else token for token in tokens]
    changed = whole | {"tokenizer.ggml.tokens": renamed, "tokenizer.ggml.token_type": kinds}
    with pytest.raises(TokenizerLoadError, match="lacks 1 of 256 byte tokens"):
        tokenizer_from_metadata(changed)
