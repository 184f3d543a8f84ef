"""What simulated engines count, as real ones export it."""
