"""The `paceline.dev` API: models, conditions, and the schema generated from them."""
