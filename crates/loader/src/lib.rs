//! Samples to batches: what to read, in which order, and the threads that do it.
