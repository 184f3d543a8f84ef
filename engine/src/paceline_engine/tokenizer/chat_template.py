"""Chat templates: messages to prompt text, with special tokens out of the users' reach.

A template writes special tokens as text (`<|im_start|>`). If the rendered text were
tokenised as a whole, as Hugging Face and vLLM do, the same text typed by a user would
become the same token and could forge a turn. Here every special token's text inside a
message, a tool or a variable of the caller's is broken by a sentinel character before
rendering; `RenderedChat` lets the tokeniser find the template's own tokens and then take
the sentinels out. For messages without such text the ids are those of Hugging Face and vLLM.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final, NoReturn

import jinja2
from jinja2 import meta, nodes
from jinja2.ext import Extension
from jinja2.ext import loopcontrols as loop_controls
from jinja2.parser import Parser
from jinja2.sandbox import ImmutableSandboxedEnvironment
from typing_extensions import override

from paceline_engine.tokenizer.errors import ChatTemplateError, TokenizerLoadError

Message = Mapping[str, object]

# Unicode noncharacters: valid in UTF-8, never used for text.
_SENTINELS: Final = tuple(chr(code) for code in range(0xFDD0, 0xFDF0))
# What a template's own operations raise when messages have an unexpected shape.
_RENDER_ERRORS: Final = (
    jinja2.TemplateError,
    ArithmeticError,
    AttributeError,
    LookupError,
    RecursionError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chat:
    """What a template is given.

    Attributes:
        messages: OpenAI chat messages, `content` as the template expects it (a string).
        add_generation_prompt: Whether the prompt ends where the assistant begins.
        continue_final_message: Whether it ends inside the last message instead, right after
            its content, so that the output goes on with it.
        tools: OpenAI tool definitions; empty leaves `tools` undefined.
        variables: Further names for the template, such as `enable_thinking`. The model's own
            (`bos_token`) and the ones above win over them.
    """

    messages: Sequence[Message]
    add_generation_prompt: bool = True
    continue_final_message: bool = False
    tools: Sequence[Mapping[str, object]] = ()
    variables: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RenderedChat:
    """Prompt text; `sentinel` (empty where not needed) is to be removed from plain parts."""

    text: str
    sentinel: str


class _GenerationBlock(Extension):
    """Accepts `{% generation %}`, which marks assistant text for training, as plain text."""

    def __init__(self, environment: jinja2.Environment) -> None:
        super().__init__(environment)
        self.tags = {"generation"}

    @override
    def parse(self, parser: Parser) -> list[nodes.Node]:
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _raise_exception(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _to_json(
    value: object,
    ensure_ascii: bool = False,  # noqa: FBT001, FBT002 in the order that templates may rely on
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,  # noqa: FBT001, FBT002
) -> str:
    """The filter `tojson` as transformers has it: Jinja's own escapes HTML."""
    return json.dumps(
        value,
        ensure_ascii=ensure_ascii,
        indent=indent,
        separators=separators,
        sort_keys=sort_keys,
    )


_Call = nodes.Filter | nodes.Call


def _check_calls(source: nodes.Template, functions: Mapping[str, Callable[..., object]]) -> None:
    """Whether filters and functions of ours are called as they can be.

    Raises:
        TokenizerLoadError: A call that fails with any messages.
    """
    redefined = {macro.name for macro in source.find_all(nodes.Macro)}
    for piped in source.find_all(nodes.Filter):
        _check_call(piped, functions.get(piped.name), [piped.node])
    for call in source.find_all(nodes.Call):
        if isinstance(call.node, nodes.Name) and call.node.name not in redefined:
            _check_call(call, functions.get(call.node.name), [])


def _check_call(
    call: _Call, function: Callable[..., object] | None, piped: Sequence[nodes.Expr | None]
) -> None:
    if function is None or call.dyn_args or call.dyn_kwargs:
        return
    named = {each.key: each.value for each in call.kwargs if isinstance(each, nodes.Keyword)}
    try:
        inspect.signature(function).bind(*piped, *call.args, **named)
    except TypeError as error:
        name = call.name if isinstance(call, nodes.Filter) else getattr(call.node, "name", "")
        raise TokenizerLoadError(f"chat template, line {call.lineno}: {name}: {error}") from error


class ChatTemplate:
    """A compiled template in the dialect that Hugging Face models use.

    Rendering has no shared mutable state, so one object serves all threads.

    Attributes:
        uses_tools: Whether the template mentions `tools`; without it they would be dropped.
    """

    def __init__(
        self,
        source: str,
        special_texts: Sequence[str],
        variables: Mapping[str, str],
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Compiles a template.

        Args:
            source: Jinja source from the model's files.
            special_texts: Texts of all special tokens.
            variables: Names the template may use, such as `bos_token`.
            now: Clock behind the template's `strftime_now`.

        Raises:
            TokenizerLoadError: The source is not a valid template, or calls what it is given as
                it cannot be called.
        """
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            autoescape=False,
            extensions=[loop_controls, _GenerationBlock],
        )
        functions: Mapping[str, Callable[..., object]] = {
            "raise_exception": _raise_exception,
            "strftime_now": lambda form: now().strftime(form),
        }
        environment.filters["tojson"] = _to_json
        environment.globals.update(functions)
        try:
            self._template = environment.from_string(source)
            parsed = environment.parse(source)
        except jinja2.TemplateSyntaxError as error:
            raise TokenizerLoadError(f"chat template, line {error.lineno}: {error}") from error
        _check_calls(parsed, {"tojson": _to_json, **functions})
        named = meta.find_undeclared_variables(parsed)
        self.uses_tools: Final = "tools" in named
        self._variables = dict(variables)
        self._special = _any_of(special_texts)

    def render(self, chat: Chat) -> RenderedChat:
        """Writes a chat as the model's prompt text.

        Raises:
            ChatTemplateError: The template rejects the messages.
        """
        sentinel, mark = self._sentinels_for(chat)
        messages = [self._guard(message, sentinel) for message in chat.messages]
        if chat.continue_final_message:
            messages = [*messages[:-1], _marked(messages[-1] if messages else None, mark)]
        given = {name: self._guard(value, sentinel) for name, value in chat.variables.items()}
        if chat.tools:
            given["tools"] = [self._guard(tool, sentinel) for tool in chat.tools]
        try:
            text = self._template.render(
                {
                    **given,
                    **self._variables,
                    "messages": messages,
                    "add_generation_prompt": chat.add_generation_prompt,
                }
            )
        except _RENDER_ERRORS as error:
            reason = " ".join(str(error).split()) or type(error).__name__
            raise ChatTemplateError(f"the chat template rejects the messages: {reason}") from error
        return RenderedChat(
            _open_end(text, mark) if chat.continue_final_message else text, sentinel
        )

    def _sentinels_for(self, chat: Chat) -> tuple[str, str]:
        """A character for broken special tokens (empty if there are none), and a mark."""
        texts = _texts((chat.messages, chat.tools, chat.variables))
        needed = any(self._special.search(text) for text in texts)
        if not needed and not chat.continue_final_message:
            return "", ""
        free = [each for each in _SENTINELS if not any(each in text for text in texts)]
        if len(free) < 2:
            raise ChatTemplateError("messages hold special tokens and every Unicode noncharacter")
        return (free[0] if needed else ""), free[1]

    def _guard(self, value: object, sentinel: str) -> object:
        if not sentinel:
            return value
        if isinstance(value, str):
            return self._special.sub(lambda match: _broken(match.group(), sentinel), value)
        if isinstance(value, Mapping):
            return {
                self._guard(key, sentinel): self._guard(item, sentinel)
                for key, item in value.items()
            }
        if isinstance(value, (list, tuple)):
            return [self._guard(item, sentinel) for item in value]
        return value


def _any_of(texts: Sequence[str]) -> re.Pattern[str]:
    longest_first = sorted(filter(None, texts), key=len, reverse=True)
    return re.compile("|".join(map(re.escape, longest_first)) or r"(?!)")


def _marked(message: object, mark: str) -> object:
    """The last message with a mark at the end of its content."""
    content = message.get("content") if isinstance(message, Mapping) else None
    if not isinstance(message, Mapping) or not isinstance(content, str) or not content:
        raise ChatTemplateError("the last message has no text that could be continued")
    return {**message, "content": content + mark}


def _open_end(text: str, mark: str) -> str:
    """The text up to the mark."""
    end = text.rfind(mark)
    if end < 0:
        raise ChatTemplateError("the chat template leaves the last message out")
    return text[:end]


def _broken(special: str, sentinel: str) -> str:
    return special[0] + sentinel + special[1:]


def _texts(value: object) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, Mapping):
        return [text for pair in value.items() for item in pair for text in _texts(item)]
    if isinstance(value, (list, tuple)):
        return [text for item in value for text in _texts(item)]
    return []
