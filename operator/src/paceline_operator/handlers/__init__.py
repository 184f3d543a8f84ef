"""kopf decorators only: watch events feed the store and the queue."""
