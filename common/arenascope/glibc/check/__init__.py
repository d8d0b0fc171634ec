"""The invariants of every structure."""
