"""The shell's entry point: its command line, how it holds a process, and the commands that only a shell has.

`main` parses the command line and runs it; `shell` opens and holds the target. `watch` and `metrics` repeat looks,
`several_subjects` reads many targets, `mcp` answers an assistant. `fleet/` spreads looks over machines.
"""
