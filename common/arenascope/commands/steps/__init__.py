"""What several commands do: look at a live process's copy, save, read and write snapshots, gather a report's page."""
