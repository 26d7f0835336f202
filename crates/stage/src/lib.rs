//! Written bytes on their way: a journalled staging area on a fast tier, and the threads that move what lies in it.
