"""The server process: HTTP on three ports, text on one side and token ids on the other.

It reaches the engine through `paceline_engine.client` only. `flags`, `metric_names` and
`dialect` import nothing but the standard library, so contract tests can read them anywhere.

One call to the API passes `connection` (stamps its first byte), `envelope` (id, count, drain),
`api` (key, body, model, prompts), `call` (admission of all its prompts) and, for each prompt,
`generation` (engine, decoder, stop strings, meter); `answer` writes what comes out, in the
form that `shape` gives it. `lifecycle` wires this to the ports and ends it.
"""
