"""Locates malloc's structures in a process."""
