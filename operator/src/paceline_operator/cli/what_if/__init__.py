"""`what-if`: a load played to the old and the new spec.

command                        arguments, and which output is printed
run, subject, live             what is gathered and played
load, trace_file,
prometheus_access, plays       the load, and how far it has come
comparison_*                   as table, Markdown and JSON
"""
