"""What several commands read from a session."""
