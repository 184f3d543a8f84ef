"""Kubernetes quantities as exact numbers."""

from __future__ import annotations

from decimal import ROUND_FLOOR, Decimal
from typing import Any

MAX_WHOLE = Decimal(2**63 - 1)
_SUFFIXES = {
    "n": Decimal("1e-9"), "u": Decimal("1e-6"), "m": Decimal("1e-3"), "": Decimal(1),
    "k": Decimal("1e3"), "M": Decimal("1e6"), "G": Decimal("1e9"), "T": Decimal("1e12"),
    "P": Decimal("1e15"), "E": Decimal("1e18"),
    "Ki": Decimal(2**10), "Mi": Decimal(2**20), "Gi": Decimal(2**30), "Ti": Decimal(2**40),
    "Pi": Decimal(2**50), "Ei": Decimal(2**60),
}  # fmt: skip


def parse(value: Any) -> Decimal | None:
    """Exact value of a quantity, or None where it is not one."""
    text = str(value).strip()
    digits = text.rstrip("numkKMGTPEi")
    suffix = text[len(digits) :]
    try:
        return Decimal(digits) * _SUFFIXES[suffix] if suffix in _SUFFIXES else Decimal(text)
    except ArithmeticError:
        return None


def whole(value: Any) -> int:
    """Largest whole number not above a quantity; 0 where it is not one.

    The API server holds no number of more than 64 bits; `1e999999` is none to reckon with.
    """
    number = parse(value)
    if number is None or not number.is_finite():
        return 0
    return int(max(-MAX_WHOLE, min(number, MAX_WHOLE)).to_integral_value(ROUND_FLOOR))
