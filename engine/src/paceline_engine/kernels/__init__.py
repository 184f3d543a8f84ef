"""Compute kernels: `reference/` in plain torch specifies, `cpu/` in C++ is the fast form."""
