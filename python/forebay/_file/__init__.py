"""Single files: their variables, attributes and values."""
