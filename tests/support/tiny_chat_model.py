"""A small model with random weights that can be served: tokenizer, template and all.

Every byte is a token; eight more join common pairs, so that words have spellings with and
without a space; the template mentions tools.
"""

from __future__ import annotations

import json
from pathlib import Path

from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from tests.support import tiny_llama

SPECIALS = ("<|end|>", "<|turn|>")
WORDS = ("th", "the", " t", " th", " the", "in", "er", " a")
TEMPLATE = """\
{%- if tools %}<|turn|>tools
{{ tools | tojson }}<|end|>
{% endif -%}
{%- for message in messages %}<|turn|>{{ message.role }}
{{ message.content }}
{%- for call in message.tool_calls or [] %}[{{ call.function.name }}:
{{- call.function.arguments.city }}]{% endfor -%}
<|end|>
{% endfor -%}
{%- if add_generation_prompt %}<|turn|>assistant
{% endif -%}
{%- if aside is defined %}({{ aside }}){% endif -%}
"""


def _tokenizer() -> Tokenizer:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    joined = [word.replace(" ", "Ġ") for word in WORDS]
    vocabulary = {text: index for index, text in enumerate([*alphabet, *joined])}
    merges = [("t", "h"), ("th", "e"), ("Ġ", "t"), ("Ġ", "th"), ("Ġ", "the"), ("i", "n"),
              ("e", "r"), ("Ġ", "a")]  # fmt: skip
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in SPECIALS])
    return tokenizer


def write(directory: Path) -> Path:
    """Writes the model; returns the directory."""
    tokenizer = _tokenizer()
    size = tokenizer.get_vocab_size()
    end = tokenizer.token_to_id(SPECIALS[0])
    tiny_llama.write(directory, {"vocab_size": size, "eos_token_id": end})
    tokenizer.save(str(directory / "tokenizer.json"))
    options = {"eos_token": SPECIALS[0], "chat_template": TEMPLATE}
    (directory / "tokenizer_config.json").write_text(json.dumps(options))
    return directory
