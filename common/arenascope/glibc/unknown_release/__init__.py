"""Derives the structures of a release that the table does not know."""
