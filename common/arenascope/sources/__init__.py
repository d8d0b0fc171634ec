"""Process images read without a debugger: ELF cores, /proc/PID, and what each tells of residency."""
