"""Typed errors of the test cluster: each one says what is wrong, where, and what to do."""


class ClusterError(Exception):
    """Base of every error that the command line reports as a single line.

    Attributes:
        problem: What is wrong, and where.
        remedy: What the reader can do about it.
    """

    def __init__(self, problem: str, remedy: str) -> None:
        super().__init__(f"{problem}; {remedy}")
        self.problem = problem
        self.remedy = remedy


class MissingToolError(ClusterError):
    """A program or Debian package is absent, or too old."""


class BuildError(ClusterError):
    """A Go module could not be compiled."""


class BinaryMissingError(ClusterError):
    """A compiled program is not in the cache."""


class PortInUseError(ClusterError):
    """A port that the cluster needs belongs to another process."""


class ForeignClusterError(ClusterError):
    """This machine, or a kubeconfig context, belongs to somebody else's cluster."""


class StartError(ClusterError):
    """A process did not start, or did not become ready in time."""


class CommandError(ClusterError):
    """A program that the cluster calls ended with an error."""


class CheckError(ClusterError):
    """A live check of the running cluster failed."""
