//! An HDF5 VOL connector: reads of data sets are cached, everything else passes through.
