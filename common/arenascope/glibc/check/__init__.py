"""Checks the invariants of every structure."""
