"""Text that several commands show."""
