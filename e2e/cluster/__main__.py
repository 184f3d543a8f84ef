"""`python -m e2e.cluster COMMAND`: a real Kubernetes cluster on this machine."""

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence

import yaml

from e2e.cluster import access, build, checks, existing, lifecycle, status, values
from e2e.cluster.errors import ClusterError
from e2e.cluster.progress import Progress
from e2e.cluster.settings import Settings, from_environment
from e2e.interruption import raised
from e2e.kubectl import KubectlError

_HELP = {
    "build": "compile the cluster's programs and install missing Debian packages",
    "up": "start the cluster, or what is missing of it",
    "down": "stop it and remove all that it made",
    "status": "show processes, node and pods",
    "check": "try DNS, exec, logs, port-forward, memory limits and the API from a pod",
    "kubeconfig": "print the path of the kubeconfig",
    "values": "print the Helm values that run this checkout on the cluster",
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; every expected failure is one line."""
    options = _parser().parse_args(arguments)
    try:
        with raised():
            return _COMMANDS[options.command](from_environment(), options)
    except ClusterError as error:
        print(f"cluster: {error.problem} - {error.remedy}", file=sys.stderr)
    except KubectlError as error:
        print(f"cluster: {error} - see `python -m e2e.cluster status`", file=sys.stderr)
    except KeyboardInterrupt:
        print("cluster: interrupted", file=sys.stderr)
        return 130
    return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m e2e.cluster", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, text in _HELP.items():
        command = commands.add_parser(name, help=text)
        if name == "status":
            command.add_argument("--json", action="store_true", help="print JSON")
    return parser


def _build(settings: Settings, _options: argparse.Namespace) -> int:
    build.build(settings.cache, Progress())
    return 0


def _up(settings: Settings, _options: argparse.Namespace) -> int:
    if settings.provider == "existing":
        existing.up(settings, Progress())
    else:
        lifecycle.up(settings, Progress())
    print(access.exports(settings))
    return 0


def _down(settings: Settings, _options: argparse.Namespace) -> int:
    if settings.provider == "existing":
        existing.down(settings, Progress())
        return 0
    return 1 if lifecycle.down(settings, Progress()) else 0


def _status(settings: Settings, options: argparse.Namespace) -> int:
    report = status.gather(settings)
    if options.json:
        print(json.dumps(status.as_json(report), indent=2))
    else:
        status.show(report)
        if report.up:
            print(access.exports(settings))
    return 0 if report.is_well else 1


def _check(settings: Settings, _options: argparse.Namespace) -> int:
    checks.check(settings, Progress())
    print("cluster: ok")
    return 0


def _kubeconfig(settings: Settings, _options: argparse.Namespace) -> int:
    print(settings.kubeconfig)
    return 0


def _values(settings: Settings, _options: argparse.Namespace) -> int:
    print(yaml.safe_dump(values.chart_values(settings), sort_keys=False), end="")
    return 0


_COMMANDS: Mapping[str, Callable[[Settings, argparse.Namespace], int]] = {
    "build": _build,
    "up": _up,
    "down": _down,
    "status": _status,
    "check": _check,
    "kubeconfig": _kubeconfig,
    "values": _values,
}

if __name__ == "__main__":
    sys.exit(main())
