"""The commands, a file for each: `all_commands.py` lists them, `framework/` has what they are made of."""
