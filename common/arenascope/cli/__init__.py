"""The shell's door: its command line, how it holds a process, and the loops that only a shell has.

`main` parses and runs, `command_line` is its tree, `shell` opens and holds what is looked at. `watch` and
`metrics` look again and again, `several_subjects` at many, `mcp` when an assistant asks; `engines/` spreads looks over
machines.
"""
