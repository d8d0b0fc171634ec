"""Everything that knows glibc malloc: one file per structure, named as glibc's readers name them."""
