"""The load generator's Job, and what its log must hold."""

import json
from pathlib import Path

import pytest

from e2e.job import SOURCES, LoadJob, PodHost, read_log
from e2e.kubectl import Kubectl, KubectlError

START = json.dumps({"start": {"at_s": 5.0, "requests": 1, "phases": []}})
SUMMARY = json.dumps({"summary": {}})
RECORD = (
    '{"id":0,"phase":"p","kind":"k","streamed":true,"scheduled_s":1.0,"sent_s":1.0,'
    '"ended_s":2.0,"ttft_ms":1.0,"gaps_ms":[],"prompt_tokens":1,"tokens":1,"status":200,'
    '"outcome":"ok","error":null}'
)


def test_a_whole_log_is_read() -> None:
    log = read_log([START, "load: 5 s sent=1/1", RECORD, SUMMARY])
    assert (log.started_s, log.planned, len(log.records)) == (5.0, 1, 1)


def test_a_run_that_was_told_to_end_holds_what_it_sent() -> None:
    start = json.dumps({"start": {"at_s": 5.0, "requests": 9, "phases": []}})
    ended = json.dumps({"summary": {"sent": 1, "finished": True}})
    assert len(read_log([start, RECORD, ended]).records) == 1
    with pytest.raises(KubectlError, match="2 requests were due"):
        read_log([start, RECORD, json.dumps({"summary": {"sent": 2, "finished": True}})])


@pytest.mark.parametrize(
    "lines",
    [[], ["Traceback"], [START, RECORD], [START, SUMMARY], [RECORD, SUMMARY]],
    ids=["empty", "crashed", "cut off", "a request missing", "no start"],
)
def test_a_log_with_a_gap_is_refused(lines: list[str]) -> None:
    with pytest.raises(KubectlError):
        read_log(lines)


def test_the_pod_is_confined_and_bounded() -> None:
    job = LoadJob(Kubectl(Path("kubectl"), Path("k")), PodHost(image="i"), "load", ("--url", "u"))
    spec = job._job()["spec"]
    pod = spec["template"]["spec"]
    container = pod["containers"][0]
    assert spec["activeDeadlineSeconds"] > 0
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["command"] == ["python", "-m", "e2e.load", "--url", "u"]


def test_every_source_of_the_generator_travels() -> None:
    data = LoadJob(Kubectl(Path("kubectl"), Path("k")), PodHost(image="i"), "load", ())._sources()
    assert set(data["data"]) == {path.name for path in SOURCES.glob("*.py")} >= {"__main__.py"}
