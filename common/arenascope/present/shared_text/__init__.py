"""What all screens share: tables, sentences of problems and findings, the progress bar. A door writes the lines."""
