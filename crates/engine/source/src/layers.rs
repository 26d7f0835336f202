//! Origins over an origin: caches, limits, faults and traces.
//!
//! | file | idea |
//! |---|---|
//! | `trace` | an origin that reports each request to a sink |
//! | `small_source_cache` | an origin that reads small, far sources by one request, and caches them |
//! | `throttle` | a bandwidth limit that all readers share |
//! | `fault` | an origin that fails and delays on a schedule |

pub(crate) mod fault;
pub(crate) mod small_source_cache;
pub(crate) mod throttle;
pub(crate) mod trace;
