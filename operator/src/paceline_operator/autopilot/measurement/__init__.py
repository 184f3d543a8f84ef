"""Objectives against what was measured: shares, budgets of errors, waits, minutes, cold starts."""
