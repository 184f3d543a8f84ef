"""I/O with the Kubernetes API: client, apply, scale, read, store, lease, events."""
