"""Firewall rules: the cluster's own two chains, and the removal of all that it left.

kube-proxy, the kubelet and the port mapping plug-in make chains under fixed prefixes. `up`
refuses a machine that has such chains already, so afterwards every one of them is ours.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from e2e.cluster.commands import attempt, run
from e2e.cluster.settings import CLUSTER_CIDR, NAME, POD_CIDR

CHAIN = NAME.upper()
KUBERNETES_PREFIX = "KUBE-"
PREFIXES = (CHAIN, KUBERNETES_PREFIX, "CNI-HOSTPORT-", "CNI-DN-", "CNI-SN-")

FAMILIES = ("iptables", "ip6tables")
TABLES = ("filter", "nat", "mangle")

_RULES = f"""\
*nat
:{CHAIN} - [0:0]
-A {CHAIN} -s {POD_CIDR} ! -d {CLUSTER_CIDR} -j MASQUERADE
-I POSTROUTING -j {CHAIN}
COMMIT
*filter
:{CHAIN} - [0:0]
-A {CHAIN} -s {CLUSTER_CIDR} -j ACCEPT
-A {CHAIN} -d {CLUSTER_CIDR} -j ACCEPT
-I FORWARD -j {CHAIN}
COMMIT
"""


@dataclass(frozen=True, slots=True, order=True)
class Chain:
    """One chain that somebody made.

    Attributes:
        family: `iptables` or `ip6tables`.
        table: Table it is in.
        name: Its name.
    """

    family: str
    table: str
    name: str


def create() -> None:
    """Lets pods reach outside under the node's address, and traffic of theirs be forwarded."""
    if not any(chain.name == CHAIN for chain in chains()):
        run(["iptables-restore", "--noflush"], stdin=_RULES)


def chains() -> set[Chain]:
    """All chains with one of the prefixes above."""
    return {
        Chain(family, table, name)
        for family in FAMILIES
        for table in TABLES
        for name in chain_names(save(family, table))
        if name.startswith(PREFIXES)
    }


def remove(kept: Iterable[Chain] = ()) -> None:
    """Removes the cluster's chains and every jump to them.

    Args:
        kept: Chains that were there before the cluster.
    """
    keep = set(kept)
    for family in FAMILIES:
        for table in TABLES:
            text = save(family, table)
            own = {name for name in chain_names(text) if name.startswith(PREFIXES)}
            own -= {chain.name for chain in keep if (chain.family, chain.table) == (family, table)}
            if own:
                run([f"{family}-restore", "--noflush"], stdin=removal(table, text, own))


def rules(family: str) -> list[str]:
    """Every rule and chain of a family but the empty built-in ones."""
    found = []
    for table in TABLES:
        text = save(family, table)
        lines = [*(f":{name}" for name in chain_names(text)), *rule_lines(text)]
        found += [f"{family} {table} {line}" for line in lines]
    return sorted(found)


def save(family: str, table: str) -> str:
    """A table as `iptables-save` prints it; empty where the kernel has none."""
    return attempt([f"{family}-save", "-t", table]).stdout


def chain_names(text: str) -> list[str]:
    """Chains that are not built in: their policy is a dash."""
    return re.findall(r"^:(\S+) - ", text, re.MULTILINE)


def rule_lines(text: str) -> list[str]:
    """The rules in a saved table."""
    return [line for line in text.splitlines() if line.startswith("-A ")]


def removal(table: str, text: str, own: set[str]) -> str:
    """Input of `iptables-restore --noflush` that removes chains and the jumps to them."""
    jumps = [
        f"-D {line.removeprefix('-A ')}"
        for line in rule_lines(text)
        if line.split()[1] not in own and _target(line) in own
    ]
    names = sorted(own)
    # A declared chain is emptied, so that none refers to another when they are deleted.
    declared = [f":{name} - [0:0]" for name in names]
    return "\n".join([f"*{table}", *declared, *jumps, *(f"-X {n}" for n in names), "COMMIT", ""])


def _target(rule: str) -> str:
    words = rule.split()
    for flag in ("-j", "-g"):
        if flag in words:
            return words[words.index(flag) + 1]
    return ""
