"""The autopilot against what people use today and against an oracle, over many loads."""
