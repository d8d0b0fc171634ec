"""Where malloc's structures are in this process."""
