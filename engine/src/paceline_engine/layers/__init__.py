"""Parts of a transformer: projections, rotary tables, attention, feed-forward, KV tensors."""
