"""Core files as images."""
