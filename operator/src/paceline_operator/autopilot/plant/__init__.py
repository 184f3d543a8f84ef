"""The engines' step times, from a prior and from step moments, and what follows from them.

law, linear, ladder   the formula, least squares, and the budgets there are
prior, fit, drift     what is believed before, what is measured, and whether it still holds
pace                  who is slower than the pool
workload              what requests look like
plant, capacity       one step, and one replica within its objectives
"""
