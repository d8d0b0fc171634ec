"""Process images that are read without a debugger: ELF cores, /proc/PID, and what each says about residency."""
