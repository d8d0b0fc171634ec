"""Everything about glibc malloc: one file per structure, under the name that readers of glibc know."""
