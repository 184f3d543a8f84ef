"""The parts of a chat: messages, tools, and how the template is to write them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Discriminator,
    Field,
    JsonValue,
    StringConstraints,
    Tag,
    WithJsonSchema,
    model_validator,
)
from pydantic_core import PydanticCustomError, from_json

from paceline_engine.server.known_fields import at_most, contradiction

MAX_MESSAGES: Final = 4096
MAX_TOOLS: Final = 128
MAX_VARIABLES: Final = 64
RESERVED: Final = frozenset(
    {
        "messages",
        "tools",
        "documents",
        "add_generation_prompt",
        "continue_final_message",
        "chat_template",
        "tokenize",
    }
)
"""Names in `chat_template_kwargs` that are fields of their own or change how we render."""

_STRICT: Final = ConfigDict(frozen=True, strict=True, allow_inf_nan=False)
Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class TextPart(BaseModel):
    """Text part of a message; other kinds are not served."""

    model_config = _STRICT

    type: Literal["text"]
    text: str


def _content_form(value: object) -> str:
    return "list of parts" if isinstance(value, list | tuple) else "text"


_PART_SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {"type": {"const": "text"}, "text": {"type": "string"}},
    "required": ["type", "text"],
}
Content = Annotated[
    Annotated[str | None, Tag("text")]
    | Annotated[tuple[TextPart, ...], Field(fail_fast=True), Tag("list of parts")],
    Discriminator(_content_form),
    WithJsonSchema(
        {
            "title": "Content",
            "anyOf": [
                {"type": "string"},
                {"type": "null"},
                {"type": "array", "items": _PART_SCHEMA},
            ],
        }
    ),
]


class CalledFunction(BaseModel):
    """Function that an assistant called; `arguments` is a JSON object as text."""

    model_config = _STRICT

    name: Name
    arguments: Annotated[
        str, WithJsonSchema({"type": "string", "contentMediaType": "application/json"})
    ] = ""

    def as_given(self) -> dict[str, object]:
        """Name and parsed arguments: templates of the known families write objects."""
        return {"name": self.name, "arguments": _arguments(self.arguments)}


def _arguments(text: str) -> object:
    try:
        parsed = from_json(text, allow_inf_nan=False) if text else {}
    except ValueError:  # nesting has a limit there too
        parsed = None
    if not isinstance(parsed, dict):
        raise PydanticCustomError("arguments", "arguments must be a JSON object, as text")
    return parsed


class ToolCall(BaseModel):
    """Call of a tool in an assistant's turn."""

    model_config = _STRICT

    id: str | None = None
    type: Literal["function"] = "function"
    function: CalledFunction

    @model_validator(mode="after")
    def check_arguments(self) -> Self:
        """Refuses arguments that are no JSON object."""
        self.function.as_given()
        return self

    def as_given(self) -> dict[str, object]:
        """For the template."""
        call: dict[str, object] = {"type": self.type, "function": self.function.as_given()}
        return call if self.id is None else {"id": self.id, **call}


class Message(BaseModel):
    """One turn of a chat."""

    model_config = _STRICT

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Content = None
    name: str | None = None
    reasoning_content: str | None = None
    tool_call_id: str | None = None
    tool_calls: (
        Annotated[tuple[ToolCall, ...], Field(fail_fast=True, max_length=MAX_TOOLS)] | None
    ) = None

    def text(self) -> str:
        """Content as one string; parts are lines of their own, as in vLLM."""
        if self.content is None or isinstance(self.content, str):
            return self.content or ""
        return "\n".join(part.text for part in self.content if part.text)

    def as_given(self) -> Mapping[str, object]:
        """For the template: role, content as a string, and what else is set."""
        given: dict[str, object] = {"role": self.role, "content": self.text()}
        for name in ("name", "reasoning_content", "tool_call_id"):
            if (value := getattr(self, name)) is not None:
                given[name] = value
        if self.tool_calls:
            given["tool_calls"] = [call.as_given() for call in self.tool_calls]
        return given


Messages = Annotated[
    tuple[Message, ...], Field(fail_fast=True, min_length=1, max_length=MAX_MESSAGES)
]


class FunctionDefinition(BaseModel):
    """Function that a model may call."""

    model_config = _STRICT

    name: Name
    description: str | None = None
    parameters: dict[str, JsonValue] | None = None
    strict: bool | None = None


class Tool(BaseModel):
    """Tool that a model may use."""

    model_config = _STRICT

    type: Literal["function"]
    function: FunctionDefinition


def _check_choice(value: object) -> object:
    if value not in (None, "none", "auto"):
        raise PydanticCustomError("unsupported_field", "{field}", {"field": "tool_choice"})
    return value


def _check_variable(name: str) -> str:
    if name in RESERVED:
        raise PydanticCustomError("reserved", "a field of its own, or not served here")
    return name


ToolChoice = Annotated[
    JsonValue,
    BeforeValidator(_check_choice),
    WithJsonSchema({"title": "Tool Choice", "enum": [None, "none", "auto"]}),
]
VariableName = Annotated[
    str,
    StringConstraints(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,63}$"),
    AfterValidator(_check_variable),
]


class TemplateFields(BaseModel):
    """How the chat template is to write messages."""

    model_config = _STRICT

    tools: Annotated[tuple[Tool, ...], Field(fail_fast=True, max_length=MAX_TOOLS)] | None = None
    tool_choice: ToolChoice = None
    add_generation_prompt: bool | None = None
    continue_final_message: bool | None = None
    chat_template_kwargs: (
        Annotated[
            dict[VariableName, JsonValue], Field(max_length=MAX_VARIABLES), at_most(MAX_VARIABLES)
        ]
        | None
    ) = None

    @model_validator(mode="after")
    def check_template(self) -> Self:
        """Refuses fields that do not go together."""
        if self.continue_final_message and self.add_generation_prompt:
            raise contradiction(
                "continue_final_message", "does not go with add_generation_prompt: true"
            )
        if self.tool_choice == "auto" and not self.tools:
            raise contradiction("tool_choice", "needs tools")
        return self

    @property
    def offers_tools(self) -> bool:
        """Whether the model is to know of any tool."""
        return bool(self.tools) and self.tool_choice != "none"

    def offered_tools(self) -> tuple[dict[str, object], ...]:
        """Tools that the model is to know of: none where `tool_choice` forbids their use."""
        if not self.offers_tools:
            return ()
        return tuple(tool.model_dump(exclude_unset=True) for tool in self.tools or ())

    @property
    def opens_answer(self) -> bool:
        """Whether the prompt ends where the assistant begins; not when a message goes on."""
        if self.add_generation_prompt is None:
            return not self.continue_final_message
        return self.add_generation_prompt


class ChatFields(TemplateFields):
    """A chat and how the template is to write it."""

    messages: Messages
