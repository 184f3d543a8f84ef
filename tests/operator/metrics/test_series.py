"""What is read of a Prometheus server's answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paceline_operator.autopilot.vocabulary.window import Counter
from paceline_operator.metrics import names
from paceline_operator.metrics.errors import ScrapeError
from paceline_operator.metrics.exposition import parse
from paceline_operator.metrics.series import answers, by_pod, read_matrix
from tests.operator.metrics.prometheus_answer import matrix, series, success
from tests.operator.metrics.text import EngineText


def engine(tokens: float = 0.0, started_s: float = 100.0) -> EngineText:
    text = EngineText(started_s)
    text.add(names.GENERATION_TOKENS, tokens)
    text.gauge(names.REQUESTS_WAITING, 4)
    text.gauge(names.REQUESTS_WAITING, 3, tier="batch")
    text.observe(names.TTFT, 0.05, 0.7)
    return text


def of_pod(body: bytes, pod: str = "a") -> Any:
    return answers(by_pod(read_matrix(body), "pod").get(pod, []))


def test_series_are_what_the_pod_itself_reports() -> None:
    (answer,) = of_pod(matrix(series(engine(7), 10.5, pod="a"), series(engine(9), 11.0, pod="b")))
    assert answer.exposition == parse(engine(7).render())
    assert answer.read_at_s == 10.5


def test_labels_of_the_server_do_not_hide_those_of_the_engine() -> None:
    (answer,) = of_pod(matrix(series(engine(7), 10.0, pod="a", tier="gold", model_name="x")))
    assert answer.exposition == parse(engine(7).render())


def test_the_last_scrape_counts_once_it_has_all_of_the_one_before() -> None:
    old, new = engine(5), EngineText()
    new.add(names.GENERATION_TOKENS, 8)
    scrapes = [series(old, 10.0, pod="a"), series(new, 15.0, pod="a")]
    (answer,) = of_pod(matrix(*scrapes))
    assert (answer.exposition, answer.read_at_s) == (parse(old.render()), 10.0)
    # What it lacks was not on its way: it is gone.
    (answer,) = of_pod(matrix(*scrapes, series(new, 20.0, pod="a")))
    assert (answer.exposition, answer.read_at_s) == (parse(new.render()), 20.0)


def test_totals_of_before_are_told_with_what_came_late() -> None:
    (answer,) = of_pod(matrix(*(series(engine(at), at, pod="a") for at in (10.0, 15.0, 20.0))))
    assert answer.earlier is not None
    assert answer.earlier(15.0) == parse(engine(15.0).render())
    assert answer.earlier(14.9) == parse(engine(10.0).render())
    assert answer.earlier(9.0) is None


def test_each_that_scrapes_a_pod_has_an_answer_of_its_own() -> None:
    first = series(engine(7), 10.0, pod="a", replica="0")
    found = of_pod(matrix(first, series(engine(8), 12.0, pod="a", replica="1")))
    assert [each.exposition.totals.counters[Counter.GENERATION_TOKENS] for each in found] == [7, 8]
    assert [each.read_at_s for each in found] == [10.0, 12.0]
    assert len({each.origin for each in found}) == 2


def test_a_restart_within_the_window_is_the_new_process_alone() -> None:
    old, new = engine(90), engine(3, started_s=12.0)
    (answer,) = of_pod(matrix(series(old, 10.0, pod="a"), series(new, 15.0, pod="a")))
    assert answer.exposition == parse(new.render())


def test_values_that_are_no_numbers_are_an_error_unless_another_scrape_has_them() -> None:
    odd = EngineText()
    odd.gauge(names.KV_USAGE, float("nan"))
    broken = series(odd, 10.0, pod="a", replica="0")
    with pytest.raises(ScrapeError, match="kv_cache_usage_ratio is nan"):
        of_pod(matrix(broken))
    (answer,) = of_pod(matrix(broken, series(engine(7), 9.0, pod="a", replica="1")))
    assert answer.read_at_s == 9.0


def test_series_without_a_start_are_no_engines() -> None:
    some = [
        each for each in series(engine(), 1.0, pod="a") if "start" not in each["metric"]["__name__"]
    ]
    with pytest.raises(ScrapeError, match="process_start_time_seconds"):
        of_pod(matrix(some))


REFUSED = {
    "nothing": b"",
    "a page": b"<html></html>",
    "a list": b"[]",
    "no status": b"{}",
    "no data": b'{"status": "success"}',
    "an error": b'{"status": "error", "errorType": "timeout", "error": "too slow"}',
    "a vector": json.dumps(success({"resultType": "vector", "result": []})).encode(),
    "a value that is none": json.dumps(
        success({"resultType": "matrix", "result": [{"metric": {}, "values": [["x", "y"]]}]})
    ).encode(),
    "no labels": json.dumps(
        success({"resultType": "matrix", "result": [{"values": [[1, "2"]]}]})
    ).encode(),
    "too deep": b"[" * 100_000,
    "no text": b"\xff\xfe\x00",
}


@pytest.mark.parametrize("name", REFUSED)
def test_other_answers_are_refused(name: str) -> None:
    with pytest.raises(ScrapeError):
        read_matrix(REFUSED[name])


def test_the_servers_own_words_are_passed_on() -> None:
    with pytest.raises(ScrapeError, match="timeout: too slow"):
        read_matrix(REFUSED["an error"])


_json = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["metric", "values", "__name__", "pod", "x"]), inner)
    ),
    max_leaves=12,
)


@given(st.lists(_json, max_size=4))
def test_no_answer_raises_anything_else(result: list[Any]) -> None:
    body = json.dumps(success({"resultType": "matrix", "result": result})).encode()
    try:
        for pod in by_pod(read_matrix(body), "pod").values():
            answers(pod)
    except ScrapeError:
        pass
