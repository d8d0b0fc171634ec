"""Text that all screens share: tables, and sentences for problems and findings. A door writes the
lines."""
