"""One streamed chat completion, as any OpenAI client would ask for it."""

from __future__ import annotations

import http.client
import json
import os
import re
import selectors
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from e2e.kubectl import Kubectl, KubectlError

FORWARD_S = 15.0
ANSWER_S = 60.0
_FORWARDED = re.compile(rb"127\.0\.0\.1:(\d+) ")


@contextmanager
def port_forward(
    kubectl: Kubectl, target: str, port: int, patience_s: float = FORWARD_S
) -> Iterator[int]:
    """`kubectl port-forward` on a free local port, which it yields.

    Raises:
        KubectlError: It did not come up within `patience_s`.
    """
    with subprocess.Popen(
        kubectl.argv("port-forward", target, f":{port}", "--address", "127.0.0.1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=kubectl.environment(),
    ) as child:
        try:
            yield _local_port(child, target, patience_s)
        finally:
            child.terminate()


def _local_port(child: subprocess.Popen[bytes], target: str, patience_s: float) -> int:
    """Reads as bytes come: a program that says half a line, or nothing, must not hold us up."""
    if child.stdout is None:
        raise KubectlError(f"port-forward {target}: no output")
    limit, said = time.monotonic() + patience_s, b""
    with selectors.DefaultSelector() as selector:
        selector.register(child.stdout, selectors.EVENT_READ)
        while selector.select(max(0.0, limit - time.monotonic())):
            fresh = os.read(child.stdout.fileno(), 4096)
            said += fresh
            if found := _FORWARDED.search(said):
                return int(found[1])
            if not fresh:
                raise KubectlError(f"port-forward {target}: {_last(said) or 'ended at once'}")
    words = _last(said) or "no word"
    raise KubectlError(f"port-forward {target}: not up within {patience_s:g} s: {words}")


def _last(said: bytes) -> str:
    lines = said.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


def stream_chat(
    port: int, model: str, question: str, max_tokens: int = 64, patience_s: float = ANSWER_S
) -> Iterator[str]:
    """Pieces of the answer as they arrive.

    Args:
        port: Local port of the server.
        model: Served name.
        question: The user's message.
        max_tokens: Output tokens.
        patience_s: Longest wait for the next piece.

    Raises:
        ConnectionError: The server answered with anything but a whole stream.
    """
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=patience_s)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise ConnectionError(f"chat: {answer.status} {answer.read(300).decode()}")
        yield from _pieces(answer)
    except TimeoutError as error:
        raise ConnectionError(f"chat: no word for {patience_s:g} s") from error
    except (http.client.HTTPException, json.JSONDecodeError) as error:
        raise ConnectionError(f"chat: the answer is broken: {error!r}") from error
    finally:
        connection.close()


def _pieces(lines: Iterable[bytes]) -> Iterator[str]:
    for line in lines:
        text = line.decode().strip()
        if text == "data: [DONE]":
            return
        if text.startswith("data: {"):
            yield _piece(json.loads(text.removeprefix("data: ")))
    raise ConnectionError("chat: the answer was cut off")


def _piece(event: dict[str, Any]) -> str:
    if "error" in event:
        raise ConnectionError(f"chat: {event['error'].get('message', 'an error')}")
    choices = event.get("choices") or [{}]
    return choices[0].get("delta", {}).get("content") or ""
