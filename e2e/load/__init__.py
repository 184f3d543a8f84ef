"""Seeded, open-loop load against an OpenAI-compatible endpoint, and what came of it.

Modules besides `sender`, `run` and `__main__` are pure. All of them need the standard
library and aiohttp only, so the sources can be mounted into any pod that has both.
"""
