"""One instant, understood; each step knows the one before.

scene        what is seen and remembered
goals        which objectives can be met, and the steps that they allow
situation    what is missed and why, and what one replica carries
restraint    what holds a move although it is wanted
figures      the model's coefficients as figures of a decision
"""
