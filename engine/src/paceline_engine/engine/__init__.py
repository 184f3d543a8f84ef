"""The engine process: one loop of schedule, run, update behind a socket.

Started by `paceline_engine.client` as
`python -m paceline_engine.engine ADDRESS PARENT_PID LOG_LEVEL` with the configuration as JSON on
standard input.
"""
