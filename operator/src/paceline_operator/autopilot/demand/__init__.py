"""How much will be offered when a replica ordered now serves."""
