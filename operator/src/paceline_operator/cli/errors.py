"""What the plug-in cannot do, in one line for its user."""

from __future__ import annotations


class CliError(Exception):
    """The text is what the user sees."""


class LoginError(CliError):
    """The API server does not take the user's login, or not any more."""


class AwayError(CliError):
    """The API server does not answer now; later it may."""
