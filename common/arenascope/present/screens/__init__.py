"""The text of the large answers."""
