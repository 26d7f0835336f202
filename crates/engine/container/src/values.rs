//! Stored elements as the machine's own numbers, and numbers as other numbers.
//!
//! | file | idea |
//! |---|---|
//! | `native/`, `nonstandard`, `convert` | stored elements as the machine's own numbers |
//! | `scalar`, `array` | values with a shape |
//! | `cast`, `recode`, `categories` | numbers as other numbers, by NumPy's rules and by a table; tables of names, joined |

pub(crate) mod array;
pub mod cast;
pub mod categories;
pub mod convert;
pub mod native;
pub mod nonstandard;
pub mod recode;
pub(crate) mod scalar;
