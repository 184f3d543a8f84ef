"""Seeded loads for the simulator: families of requests over rates, all in stated units.

rates                     requests per second over time: constant, step, ramp, bursts, days
arrivals                  when requests arrive at such rates: Poisson, or more clustered
lengths, popularity       tokens of prompts and answers; which prefix is used how often
load                      what every family offers
single_turns              requests that share nothing
shared_prefixes           requests that begin with one of a few prompts, until they do not
conversations             turns that each extend the one before
together                  several loads as one
"""
