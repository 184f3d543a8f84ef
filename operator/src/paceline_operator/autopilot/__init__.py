"""The control law, pure: data in, decisions out. `pilot.step` is its only entry."""
