"""One streamed chat completion, as any OpenAI client would ask for it."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager

from e2e.kubectl import Kubectl, KubectlError

FORWARD_S = 15


@contextmanager
def port_forward(kubectl: Kubectl, target: str, port: int) -> Iterator[int]:
    """`kubectl port-forward` on a free local port, which it yields.

    Raises:
        KubectlError: It did not come up within 15 s.
    """
    child = subprocess.Popen(
        kubectl.argv("port-forward", target, f":{port}", "--address", "127.0.0.1"),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield _local_port(child, target)
    finally:
        child.terminate()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def _local_port(child: subprocess.Popen[str], target: str) -> int:
    if child.stdout is None:
        raise KubectlError(f"port-forward {target}: no output")
    deadline, line = time.monotonic() + FORWARD_S, ""
    while time.monotonic() < deadline:
        line = child.stdout.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)", line)
        if found:
            return int(found[1])
        if not line:
            break
    raise KubectlError(f"port-forward {target}: {line.strip() or 'ended at once'}")


def stream_chat(port: int, model: str, question: str, max_tokens: int = 64) -> Iterator[str]:
    """Pieces of the answer as they arrive.

    Raises:
        ConnectionError: The server answered with anything but a stream.
    """
    body = {
        "model": model,
        "messages": [{"role": "user", "content": question}],
        "max_tokens": max_tokens,
        "temperature": 0,
        "stream": True,
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        headers = {"Content-Type": "application/json"}
        connection.request("POST", "/v1/chat/completions", json.dumps(body), headers)
        answer = connection.getresponse()
        if answer.status != 200:
            raise ConnectionError(f"chat: {answer.status} {answer.read(300).decode()}")
        for line in answer:
            text = line.decode().strip()
            if text.startswith("data: {"):
                yield _piece(json.loads(text.removeprefix("data: ")))
    finally:
        connection.close()


def _piece(event: dict[str, list[dict[str, dict[str, str | None]]]]) -> str:
    choices = event.get("choices") or [{}]
    return choices[0].get("delta", {}).get("content") or ""
