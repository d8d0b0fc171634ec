"""What several commands read for themselves, of one session."""
