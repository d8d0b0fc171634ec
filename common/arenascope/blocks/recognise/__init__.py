"""What a block is, by what it holds: a file for each language or library. `catalogue.py` asks them in their order."""
