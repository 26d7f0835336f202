"""Sets of samples in files: how they are opened, indexed, divided and joined."""
