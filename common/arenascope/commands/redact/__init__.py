"""Selects what `save --redact` keeps of memory: malloc's own words, and what the files on disk contain as well."""
