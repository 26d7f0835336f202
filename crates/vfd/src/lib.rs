//! An HDF5 virtual file driver: reads come through the tiers, writes are staged and drained behind the program.
