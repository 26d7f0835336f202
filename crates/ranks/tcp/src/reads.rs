//! Reads of other ranks' memory: requests and answers, the threads that answer, transfers in flight.

mod answer;
pub(crate) mod peers;
pub(crate) mod read_request;
pub(crate) mod server;
pub(crate) mod transfer;
