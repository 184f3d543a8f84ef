"""Pure rules: spec to child objects, live objects to status, replica ownership, scale-in."""
