//! Programs of other people started with forebay in their environment: the variables, the launcher, what plug-ins say when tried.
