"""What `save --redact` keeps of a process's memory: malloc's own words, and what the files on disk have as well."""
