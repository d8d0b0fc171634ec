"""Live processes, through /proc and ptrace."""
