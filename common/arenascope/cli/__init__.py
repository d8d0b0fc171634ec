"""The shell's door: its command line, how it holds a process, and the loops that only a shell has.

`main` parses and runs, `tree` is the whole command line, `shell` opens and holds what is looked at. `watch`, `metrics`
and `fleet` look again and again, or at many; `engines/` spreads looks over machines.
"""
