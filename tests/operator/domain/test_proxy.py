"""The proxy's configuration, checked by HAProxy itself."""

from __future__ import annotations

import subprocess
from pathlib import Path

from paceline_operator.domain import proxy
from tests.support.fleet import PLATFORM, spec

SPEC = spec(rollout={"drainSeconds": 60})


def test_haproxy_accepts_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "haproxy.cfg"
    file.write_text(proxy.config("chat", "team-a", SPEC))
    done = subprocess.run(
        ["/usr/sbin/haproxy", "-c", "-f", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "[WARNING]" not in done.stderr


def test_servers_are_found_by_the_headless_service() -> None:
    text = proxy.config("chat", "team-a", SPEC)
    assert "server-template engine 1-64 _http._tcp.chat-pods.team-a.svc.cluster.local" in text


def test_a_pod_that_cannot_be_reached_costs_no_request() -> None:
    text = proxy.config("chat", "team-a", SPEC)
    for line in (
        "option redispatch 1", "retry-on conn-failure 503", "timeout connect 1s",
        "check port 8001 inter 500ms fall 2 rise 1", "balance leastconn",
        "option http-server-close", "hold obsolete 0s", "accepted_payload_size 8192",
    ):  # fmt: skip
        assert line in text


def test_a_stopping_proxy_gives_streams_the_drain_time() -> None:
    template = proxy.template("chat", SPEC, PLATFORM, "digest")
    assert "hard-stop-after 60s" in proxy.config("chat", "team-a", SPEC)
    assert template["spec"]["terminationGracePeriodSeconds"] == 5 + 60 + 10
    stop = template["spec"]["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1]
    assert "kill -USR1 1" in stop


def test_the_proxy_is_confined() -> None:
    template = proxy.template("chat", SPEC, PLATFORM, "digest")
    container = template["spec"]["containers"][0]
    assert template["spec"]["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["volumeMounts"][0]["readOnly"] is True


def test_a_new_configuration_rolls_the_proxy() -> None:
    one = proxy.template("chat", SPEC, PLATFORM, "a")
    other = proxy.template("chat", SPEC, PLATFORM, "b")
    assert one["metadata"]["annotations"] != other["metadata"]["annotations"]
