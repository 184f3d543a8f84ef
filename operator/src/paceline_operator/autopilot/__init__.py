"""The control law, pure: data in, decisions out. `pilot.step` is its only entry.

policy, fleet, memory           what is wanted, seen, remembered      (input)
window, attainment, workload    measurements, objectives, load shape
law, prior, fit, linear, plant  step-time model from step moments
demand, capacity, feasibility   what comes, what a replica carries, what cannot be met
situation                       all of it at one instant
arbitration, ladder, move       which knob may answer what
knob_rules, itl_rules,
ttft_rules, knob_loop           live knobs, every 10 s
replica_need, replica_limits,
recommendation, scale_in_guard,
replica_loop                    replicas, every 15 s
learning, decision              memory and explained decisions        (output)
"""
