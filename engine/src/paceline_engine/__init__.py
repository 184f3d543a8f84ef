"""Paceline engine."""
