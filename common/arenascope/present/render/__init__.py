"""The model as people and scripts read it. Generators of lines; a door writes them."""
