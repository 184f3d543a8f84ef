"""The built-in vocabulary of a simulated device that was given no model.

Layout: ids 0-255 are the bytes, so a prompt has one token per UTF-8 byte and its length
is known without a tokenizer; 256-258 are special; the rest are pronounceable words, so
that hashed output tokens read as words. They are many because a drawn byte that begins a
code point is held back until the next token, which a client sees as a gap of two steps:
the 51 such bytes are to be 0.2 % of all draws. Encoding uses bytes and specials only.
"""

from __future__ import annotations

from itertools import islice, product
from typing import Final

from paceline_engine.tokenizer.chat_template import ChatTemplate
from paceline_engine.tokenizer.tokenizer import Tokenizer
from paceline_engine.tokenizer.vocabulary import SpecialToken, Vocabulary

END_OF_TEXT_ID: Final = 256
TURN_START_ID: Final = 257
TURN_END_ID: Final = 258
FIRST_WORD_ID: Final = 259
VOCAB_SIZE: Final = 32_768

_SPECIALS: Final = (
    SpecialToken(text="<|endoftext|>", token_id=END_OF_TEXT_ID),
    SpecialToken(text="<|im_start|>", token_id=TURN_START_ID),
    SpecialToken(text="<|im_end|>", token_id=TURN_END_ID),
)
_TEMPLATE: Final = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{{ message.content }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def _words(count: int) -> list[bytes]:
    syllables = [consonant + vowel for consonant in "bdfgklmnprstvz" for vowel in "aeiou"]
    words = product(syllables, repeat=3)
    return [f" {''.join(word)}".encode() for word in islice(words, count)]


def byte_tokenizer() -> Tokenizer:
    """The tokenizer described above."""
    specials = [token.text.encode() for token in _SPECIALS]
    table = [bytes([byte]) for byte in range(256)] + specials
    vocabulary = Vocabulary(
        token_bytes=tuple(table + _words(VOCAB_SIZE - FIRST_WORD_ID)),
        specials=_SPECIALS,
        eos_token_ids=(END_OF_TEXT_ID, TURN_END_ID),
    )
    template = ChatTemplate(_TEMPLATE, [token.text for token in _SPECIALS], {})
    return Tokenizer(vocabulary, lambda text: list(text.encode()), template)
