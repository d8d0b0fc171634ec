"""Steps that several commands share: reading a copy of a live process, saving, snapshots, the report's page."""
