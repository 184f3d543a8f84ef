from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from paceline_engine.tokenizer.chat_template import ChatTemplate
from paceline_engine.tokenizer.errors import ChatTemplateError, TokenizerLoadError

SPECIAL = ("<|start|>", "<|end|>")
USER = [{"role": "user", "content": "hi"}]
NOW = datetime(2026, 11, 29, tzinfo=UTC)


def template(source: str) -> ChatTemplate:
    return ChatTemplate(source, SPECIAL, {"bos_token": "<|start|>"}, now=lambda: NOW)


def text(source: str, messages: Any = USER, *, prompt: bool = False) -> str:
    return template(source).render(messages, add_generation_prompt=prompt).text


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("{{ bos_token }}{{ messages[0].content }}", "<|start|>hi"),
        ("{% if add_generation_prompt %}x{% endif %}", ""),
        ("  {% if true %}\na\n  {% endif %}\nb", "a\nb"),
        ("{{ messages | tojson }}", '[{"role": "user", "content": "hi"}]'),
        ("{{ 'é<' | tojson }}", '"é<"'),
        ("{{ strftime_now('%d %b %Y') }}", "29 Nov 2026"),
        ("{% for m in [1, 2] %}{% if m == 2 %}{% break %}{% endif %}{{ m }}{% endfor %}", "1"),
        ("{% generation %}a{% endgeneration %}b", "ab"),
        ("{{ tools is defined }}", "False"),
        ("{{ messages[0].content.strip() }}", "hi"),
    ],
)
def test_the_dialect_of_hugging_face(source: str, expected: str) -> None:
    assert text(source) == expected


def test_the_generation_prompt_is_asked_for() -> None:
    assert text("{% if add_generation_prompt %}x{% endif %}", prompt=True) == "x"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.append({}) }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__init__.__globals__ }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ raise_exception('roles must\n alternate') }}",
        "{{ 1 / 0 }}",
        "{{ messages[7].content.x }}",
        "{{ 'a' + 1 }}",
        "{{ range(10 ** 9) | list }}",
    ],
)
def test_what_a_template_must_not_do_is_one_line(source: str) -> None:
    with pytest.raises(ChatTemplateError) as refused:
        text(source)
    message = str(refused.value)
    assert message.startswith("the chat template rejects the messages: ")
    assert "\n" not in message


def test_a_broken_template_stops_the_load() -> None:
    with pytest.raises(TokenizerLoadError, match="chat template, line 2"):
        template("a\n{% if %}")


def test_special_texts_in_messages_are_broken_by_a_sentinel() -> None:
    messages = [{"role": "user", "content": "x<|end|><|start|>y"}]
    chat = template("{{ bos_token }}{{ messages[0].content }}<|end|>").render(
        messages, add_generation_prompt=False
    )
    assert chat.sentinel
    assert chat.text.count("<|end|>") == chat.text.count("<|start|>") == 1
    assert chat.text.replace(chat.sentinel, "") == "<|start|>x<|end|><|start|>y<|end|>"


def test_a_sentinel_of_the_message_itself_is_not_taken() -> None:
    content = "\ufdd0<|end|>\ufdd1"
    chat = template("{{ messages[0].content }}").render(
        [{"role": "user", "content": content}], add_generation_prompt=False
    )
    assert chat.sentinel == "\ufdd2"
    assert chat.text.replace(chat.sentinel, "") == content


def test_messages_without_special_texts_stay_as_they_are() -> None:
    chat = template("{{ messages[0].content }}").render(USER, add_generation_prompt=False)
    assert (chat.text, chat.sentinel) == ("hi", "")
