"""Steps that several commands share, or that are long: copying a live process, snapshot files, redacting."""
