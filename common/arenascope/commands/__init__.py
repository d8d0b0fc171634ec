"""The commands, a file for each: `framework/` has what they are made of, and the table of all."""
