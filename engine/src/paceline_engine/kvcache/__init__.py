"""Accounting of the paged KV cache: which block belongs to whom. No tensors here."""
