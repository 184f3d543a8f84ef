"""The server process: HTTP on three ports, text on one side and token ids on the other.

It reaches the engine through `paceline_engine.client` only. `flags`, `metric_names` and
`dialect` import nothing but the standard library, so contract tests can read them anywhere.
"""
