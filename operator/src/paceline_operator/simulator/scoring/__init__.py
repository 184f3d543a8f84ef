"""How well the requests of a load were served."""
