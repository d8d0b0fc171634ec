"""Pure functions over the model: no memory, no target, no text."""
