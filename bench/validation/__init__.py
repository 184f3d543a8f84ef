"""The simulator held against real engines over HTTP."""
