"""A data set in the memory of all ranks, and how it is filled."""
