"""Model families put together from layers."""
