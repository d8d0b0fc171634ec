"""Text that all screens share: tables, sentences for problems and findings, the progress bar. A door writes the
lines."""
