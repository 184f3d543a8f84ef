"""Hours of mixed load on a virtual clock: what must not grow does not.

The server's application, its meters and admission, the engine loop, the scheduler, the block
pool and the simulated device are the real ones; sockets and the process between them are left
out, and time jumps from one event to the next.
"""
