"""What is written for a browser: one file with style, script and data in it, which asks the network for nothing."""
