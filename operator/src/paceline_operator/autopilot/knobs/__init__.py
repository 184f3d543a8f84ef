"""The fast loop: token budget, running sequences and step time of live engines, every 10 s.

rules                                  in order; the first that has a wish is heard
itl_rules, ttft_rules, pacing_rules    what latency asks for
trial_rules, probe_rules, reversal     raises that are judged, excitation, and the way back
margin                                 the part of the ITL target kept free
moves, account, figures, loop          the move, why, from what, and one pass
"""
