"""`kubectl paceline`: what the autopilot sees and why it decides as it does, read-only."""
