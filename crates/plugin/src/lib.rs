//! What plug-ins that HDF5 loads have in common: the library that called, its functions found at run time, settings, errors.
