from __future__ import annotations

from typing import Any

from paceline_operator.domain.compute import granted
from paceline_operator.domain.names import LABEL_SERVICE
from paceline_operator.kube.resource import DEPLOYMENT, POD
from paceline_operator.kube.store import Store


def test_a_relabelled_pod_leaves_its_service() -> None:
    store = Store()
    store.put(POD, item("a", 1, service="chat"))
    store.put(POD, item("a", 2, service="other"))
    assert (store.children(POD, "d", "chat"), len(store.children(POD, "d", "other"))) == ([], 1)
    store.remove(POD, item("a", 3, service="third"))
    assert store.children(POD, "d", "other") == []


def test_a_fresh_list_of_a_namespace_drops_what_is_not_in_it() -> None:
    store = Store()
    for name in "ab":
        store.put(POD, item(name, 1))
    store.relist(POD, store.in_namespace(POD, "d"), [item("b", 2)])
    assert [each["metadata"]["name"] for each in store.in_namespace(POD, "d")] == ["b"]


def item(name: str, version: int, uid: str = "u", service: str = "chat") -> dict[str, Any]:
    metadata = {
        "name": name, "namespace": "d", "uid": uid, "resourceVersion": str(version),
        "labels": {LABEL_SERVICE: service}, "managedFields": [{"manager": "x"}],
    }  # fmt: skip
    return {"metadata": metadata}


def names(store: Store) -> list[str]:
    return [each["metadata"]["name"] for each in store.children(POD, "d", "chat")]


def test_children_are_found_by_service() -> None:
    store = Store()
    store.put(POD, item("b", 1))
    store.put(POD, item("a", 1))
    store.put(POD, item("c", 1, service="other"))
    assert names(store) == ["a", "b"]


def test_a_late_event_does_not_undo_a_newer_state() -> None:
    store = Store()
    assert store.put(POD, item("a", 5))
    assert not store.put(POD, item("a", 4))
    kept = store.get(POD, "d", "a")
    assert kept is not None
    assert kept["metadata"]["resourceVersion"] == "5"


def test_a_late_event_does_not_bring_a_deleted_object_back() -> None:
    store = Store()
    store.put(POD, item("a", 5))
    store.remove(POD, item("a", 6))
    assert not store.put(POD, item("a", 5))
    assert names(store) == []


def test_an_object_of_the_same_name_made_anew_is_taken_in() -> None:
    store = Store()
    store.put(POD, item("a", 5))
    store.remove(POD, item("a", 6))
    assert store.put(POD, item("a", 7, uid="new"))
    assert names(store) == ["a"]


def test_the_end_of_an_older_one_does_not_remove_its_successor() -> None:
    store = Store()
    store.put(POD, item("a", 7, uid="new"))
    store.remove(POD, item("a", 6, uid="old"))
    assert names(store) == ["a"]


def test_a_fresh_list_repairs_a_missed_deletion() -> None:
    store = Store()
    store.put(POD, item("a", 1))
    store.put(POD, item("b", 1))
    store.relist(POD, store.children(POD, "d", "chat"), [item("b", 2)])
    assert names(store) == ["b"]


def test_what_came_while_a_list_was_asked_for_stays() -> None:
    store = Store()
    store.put(POD, item("a", 1))
    before = store.children(POD, "d", "chat")
    store.put(POD, item("new", 3))
    store.remove(POD, item("a", 2))
    store.put(POD, item("a", 4, uid="another"))
    store.relist(POD, before, [])
    assert names(store) == ["a", "new"]


def test_a_forgotten_service_leaves_nothing() -> None:
    store = Store()
    store.put(POD, item("a", 1))
    store.forget_service("d", "chat")
    assert names(store) == []
    assert store.get(POD, "d", "a") is None


def test_only_deployments_keep_managed_fields() -> None:
    store = Store()
    store.put(POD, item("a", 1))
    store.put(DEPLOYMENT, item("a", 1))
    pod, deployment = store.get(POD, "d", "a"), store.get(DEPLOYMENT, "d", "a")
    assert pod is not None
    assert deployment is not None
    assert "managedFields" not in pod["metadata"]
    assert "managedFields" in deployment["metadata"]


def test_of_a_pod_s_specification_only_what_it_asks_for_is_kept() -> None:
    store, made = Store(), item("a", 1)
    asked = {"requests": {"cpu": "2"}}
    engine = {"name": "engine", "image": "engine:1", "resources": asked, "env": [{"name": "x"}]}
    made["spec"] = {"containers": [engine, {"name": "other", "image": "i"}], "volumes": [{}]}
    store.put(POD, made)
    kept = store.get(POD, "d", "a")
    assert kept is not None
    assert kept["spec"] == {
        "containers": [{"name": "engine", "resources": asked}, {"name": "other"}]
    }
    assert (granted(kept), granted(made)) == ("requests.cpu=2", "requests.cpu=2")
