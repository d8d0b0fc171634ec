"""Chunk by chunk, in address order."""
