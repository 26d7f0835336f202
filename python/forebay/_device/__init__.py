"""Batches on their way to a device, whichever framework uses it."""
