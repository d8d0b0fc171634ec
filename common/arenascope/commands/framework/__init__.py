"""What commands are made of: the decorator, the context of a command, and the door that it answers to (`command`)."""
