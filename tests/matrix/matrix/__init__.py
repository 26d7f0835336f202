"""A matrix of HDF5 files with the values libhdf5 reads from them: one module per subject."""
