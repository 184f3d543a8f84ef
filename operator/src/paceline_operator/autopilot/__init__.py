"""The control law, pure: data in, decisions out. `pilot.step` is its only entry.

Each package reads only those below it; knobs and replicas do not know each other.

record                 decisions as lines that give the same bytes when they are made again
pilot                  one tick: what is due, in which order
learning, hindsight    what a tick adds to memory; predicted against observed
feasibility, notices   what cannot be met; what comes to light beside the decisions
knobs | replicas       the fast loop over live knobs | the slow loop over replicas
situation              one instant, understood: seen, reachable, missed
demand                 what will be offered when a replica ordered now serves
plant                  the engines' step times from step moments, and what one replica carries
measurement            objectives against what was measured
vocabulary             what is wanted, seen, remembered, decided: plain frozen data
"""
