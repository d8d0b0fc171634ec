"""Pages for a browser: one file each, with style, script and data, which loads nothing from the network."""
