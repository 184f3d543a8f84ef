"""The tokenizer: text to ids and back, chat messages to a prompt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from paceline_engine.tokenizer.chat_template import Chat, ChatTemplate, Message
from paceline_engine.tokenizer.errors import ChatTemplateError, InvalidTextError
from paceline_engine.tokenizer.incremental import IncrementalDecoder
from paceline_engine.tokenizer.vocabulary import SpecialToken, Vocabulary

PlainEncoder = Callable[[str], list[int]]


class Tokenizer:
    """A model's tokenizer. Build it with `load_tokenizer`.

    Nothing in it changes after it is built, and the library underneath is only read, so
    one object may be used by any number of threads at once ("Already borrowed" errors
    come from libraries whose settings change between calls).
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        encode_plain: PlainEncoder,
        chat_template: ChatTemplate | None = None,
        encode_inner: PlainEncoder | None = None,
    ) -> None:
        """Joins the parts.

        Args:
            vocabulary: Ids and their bytes.
            encode_plain: Encodes text in which no special token is recognised; must be
                safe to call from several threads.
            chat_template: None where the model has none.
            encode_inner: The same for text that does not begin the prompt, where that differs.
        """
        self.vocabulary: Final = vocabulary
        self._encode_plain = encode_plain
        self._encode_inner = encode_inner or encode_plain
        self._chat_template = chat_template
        self._special_ids = {token.text: token.token_id for token in vocabulary.specials}
        self.longest_token_bytes: Final = max(map(len, vocabulary.token_bytes))
        self._special = _special_pattern(vocabulary.specials)

    @property
    def vocab_size(self) -> int:
        """Number of ids; every id below it decodes."""
        return len(self.vocabulary.token_bytes)

    @property
    def unsampled_ids(self) -> tuple[int, ...]:
        """Ids below `vocab_size` that stand for nothing and must not be drawn, ascending."""
        return self.vocabulary.unsampled_ids

    @property
    def eos_token_ids(self) -> tuple[int, ...]:
        """End-of-generation set, ascending."""
        return self.vocabulary.eos_token_ids

    @property
    def has_chat_template(self) -> bool:
        """Whether `apply_chat_template` can work."""
        return self._chat_template is not None

    @property
    def template_uses_tools(self) -> bool:
        """Whether tools given to `apply_chat_template` reach the model."""
        return self._chat_template is not None and self._chat_template.uses_tools

    def encode(
        self, text: str, *, parse_special: bool = True, add_special: bool = True
    ) -> list[int]:
        """Encodes a plain prompt, with the model's begin-of-sequence token if it wants one.

        Args:
            text: The prompt.
            parse_special: Whether the text of a special token becomes that token, as in
                the completions API of other servers, where callers write templates out.
            add_special: Whether the begin-of-sequence token may be put before it.

        Raises:
            InvalidTextError: The text holds a lone surrogate.
        """
        ids = self._encode(text, "") if parse_special else self._plain(text)
        bos = self.vocabulary.bos_token_id
        if add_special and self.vocabulary.adds_bos and bos is not None and ids[:1] != [bos]:
            ids.insert(0, bos)
        return ids

    def decode(self, token_ids: Iterable[int], *, skip_special: bool = True) -> str:
        """Decodes the ids of a whole text; bytes that are not UTF-8 become U+FFFD.

        Where encoding puts a space before a text, it is taken away here, but not by
        `incremental_decoder`, whose text goes on from a prompt.

        Raises:
            IndexError: An id outside the vocabulary.
        """
        decoder = self.incremental_decoder(skip_special=skip_special)
        text = decoder.push(token_ids) + decoder.flush()
        return text.removeprefix(" ") if self.vocabulary.prefix_space else text

    def incremental_decoder(self, *, skip_special: bool = True) -> IncrementalDecoder:
        """A decoder for one streamed output."""
        return IncrementalDecoder(self.vocabulary, skip_special=skip_special)

    def apply_chat_template(
        self,
        messages: Sequence[Message],
        *,
        add_generation_prompt: bool = True,
        continue_final_message: bool = False,
        tools: Sequence[Mapping[str, object]] = (),
        variables: Mapping[str, object] = MappingProxyType({}),
    ) -> list[int]:
        """Encodes a chat. Special tokens come from the template only, never from messages.

        Args:
            messages: OpenAI chat messages, `content` as the template expects it (a string).
            add_generation_prompt: Whether the prompt ends where the assistant begins.
            continue_final_message: Whether it ends right after the last message's content.
            tools: OpenAI tool definitions, for templates that use them.
            variables: Further names for the template.

        Raises:
            ChatTemplateError: The model has no template, or it rejects the messages.
            InvalidTextError: A message holds a lone surrogate.
        """
        if self._chat_template is None:
            raise ChatTemplateError(
                "this model has no chat template; use /v1/completions with a written-out prompt"
            )
        rendered = self._chat_template.render(
            Chat(
                messages=messages,
                add_generation_prompt=add_generation_prompt,
                continue_final_message=continue_final_message,
                tools=tools,
                variables=variables,
            )
        )
        return self._encode(rendered.text, rendered.sentinel)

    def _encode(self, text: str, sentinel: str) -> list[int]:
        ids: list[int] = []
        start = 0
        for match in self._special.finditer(text):
            ids += self._plain(text[start : match.start()], sentinel, begins=not start)
            ids.append(self._special_ids[match.group(match.lastindex or 0)])
            start = match.end()
        ids += self._plain(text[start:], sentinel, begins=not start)
        return ids

    def _plain(self, text: str, sentinel: str = "", *, begins: bool = True) -> list[int]:
        if sentinel:
            text = text.replace(sentinel, "")
        if not text:
            return []
        try:
            return self._encode_plain(text) if begins else self._encode_inner(text)
        except UnicodeEncodeError as error:
            raise InvalidTextError(
                f"the text holds a lone surrogate at character {error.start}"
            ) from error


def _special_pattern(specials: Sequence[SpecialToken]) -> re.Pattern[str]:
    longest_first = sorted(specials, key=lambda token: len(token.text), reverse=True)
    return re.compile("|".join(map(_token_pattern, longest_first)) or r"(?!)")


def _token_pattern(token: SpecialToken) -> str:
    left = r"\s*" if token.strips_left else ""
    right = r"\s*" if token.strips_right else ""
    return f"{left}({re.escape(token.text)}){right}"
