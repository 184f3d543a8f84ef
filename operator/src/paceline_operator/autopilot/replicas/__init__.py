"""The slow loop: replicas, every 15 s.

need, feedback                       what the model asks for, and what is felt
capacity_evidence, hit_shares        what was carried, and how it depends on prefixes found
pending, unseen, bursts, regret      what is under way, not seen, short, and was sorry for
limits, recommendation,
scale_in_guard                       what bounds a move, and what a scale-in waits for
account, figures, loop               why, from what, and one pass
"""
