"""The whole on a real cluster: a load held against the simulator's prediction, then faults."""
