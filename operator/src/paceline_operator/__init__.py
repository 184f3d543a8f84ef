"""Paceline operator."""
