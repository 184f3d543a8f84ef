"""The server's side of the engine process: start it, talk to it, notice its death.

The server depends on the `EngineClient` protocol alone; `ZmqEngineClient` is the one that
runs. Messages are those of `paceline_engine.message`. Nothing here loads torch.

Example:
    client = ZmqEngineClient(config, on_step=metrics.observe_step)
    await client.start()          # the process runs; it may still load the model
    await client.wait_ready()     # raises EngineDeadError if the model cannot be loaded
    try:
        (outputs,) = client.submit(request)
        async for output in outputs:
            write(output.token_ids, output.finish_reason)
    finally:
        client.abort(request.request_id)  # no-op once the request has ended
    await client.apply_tunables(max_num_batched_tokens=512)
    await client.stop()
"""

from paceline_engine.client.protocol import EngineClient, EngineDeadError
from paceline_engine.client.zmq_client import ZmqEngineClient

__all__ = ["EngineClient", "EngineDeadError", "ZmqEngineClient"]
