"""A load played to two specs by the operator's own control law, and how they compare. Pure.

engine_facts    what is known of the engines a spec asks for, and where from
manual_replicas spec.replicas as it would be after an apply
fleet           spec and facts -> the make of a simulated fleet
lead_in         the load's beginning once more in front of it, so that what is scored is settled
figures         how one run went
run_notes       what has to be said of runs beside that
comparison      runs of an old and a new spec side by side, and the verdict
"""
