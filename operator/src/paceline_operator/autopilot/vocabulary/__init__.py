"""What the control law is told, remembers and answers: plain frozen data.

window, slices, fleet           what was measured, and of whom
policy, recurrence, timetable   what is wanted, and when
memory                          what outlives a tick and a restart
decision, move, arbitration     what is answered, and which knob may answer what
phrases                         numbers in words
"""
