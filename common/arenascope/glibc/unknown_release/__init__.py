"""What a release that the table does not know looks like."""
