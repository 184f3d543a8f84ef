"""The chart grants what the code says it uses, and not one verb more."""

from __future__ import annotations

import pytest

from paceline_operator.kube.rights import RIGHTS
from tests.support.chart import NAMESPACE, Object, Rendered, template

Grant = tuple[str, str, str]


@pytest.fixture(scope="module")
def plain() -> Rendered:
    return template()


def granted(role: Object) -> set[Grant]:
    return {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }


def used(scope: str) -> set[Grant]:
    return {
        (right.group, right.resource, verb)
        for right in RIGHTS
        if right.scope == scope
        for verb in right.verbs
    }


def operator_role(rendered: Rendered) -> Object:
    return rendered.only("ClusterRole", "paceline")


def test_watched_rights_are_those_used(plain: Rendered) -> None:
    assert granted(operator_role(plain)) == used("watched")


def test_lease_rights_are_those_used(plain: Rendered) -> None:
    assert granted(plain.only("Role")) == used("lease")


def test_only_the_named_lease_can_be_read_or_changed(plain: Rendered) -> None:
    for rule in plain.only("Role")["rules"]:
        names = rule.get("resourceNames", [])
        assert names == ([] if rule["verbs"] == ["create"] else [plain.settings["leaseName"]])


def test_nothing_is_granted_twice_or_by_wildcard(plain: Rendered) -> None:
    for role in (*plain.of_kind("ClusterRole"), *plain.of_kind("Role")):
        rules = role["rules"]
        grants = [len(r["apiGroups"]) * len(r["resources"]) * len(r["verbs"]) for r in rules]
        assert sum(grants) == len(granted(role))
        assert not any("*" in grant for grant in granted(role))


def test_bindings_bind_the_operator_alone(plain: Rendered) -> None:
    account = plain.only("ServiceAccount")["metadata"]["name"]
    cluster, lease = plain.only("ClusterRoleBinding"), plain.only("RoleBinding")
    subject = [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}]
    assert cluster["subjects"] == lease["subjects"] == subject
    assert cluster["roleRef"]["name"] == operator_role(plain)["metadata"]["name"]
    assert lease["roleRef"]["name"] == plain.only("Role")["metadata"]["name"]


def test_watched_namespaces_bind_nothing_cluster_wide() -> None:
    rendered = template({"watchNamespaces": ["one", "two"]})
    assert rendered.of_kind("ClusterRoleBinding") == []
    where = {
        b["metadata"]["namespace"]: b["roleRef"]["name"]
        for b in rendered.of_kind("RoleBinding")
        if b["roleRef"]["kind"] == "ClusterRole"
    }
    role = operator_role(rendered)["metadata"]["name"]
    assert where == {"one": role, "two": role}


def test_people_get_rights_by_their_role_in_a_namespace(plain: Rendered) -> None:
    def aggregated(ending: str) -> set[str]:
        labels = plain.only("ClusterRole", ending)["metadata"]["labels"]
        prefix = "rbac.authorization.k8s.io/aggregate-to-"
        return {key.removeprefix(prefix) for key in labels if key.startswith(prefix)}

    assert aggregated("-view") == {"view", "edit", "admin"}
    assert aggregated("-edit") == {"edit", "admin"}
    verbs = {verb for _, _, verb in granted(plain.only("ClusterRole", "-view"))}
    assert verbs == {"get", "list", "watch"}
    changes = granted(plain.only("ClusterRole", "-edit"))
    assert not any(resource.endswith("/status") for _, resource, _ in changes)
