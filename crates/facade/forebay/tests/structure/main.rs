//! The structure of the workspace: who depends on whom, where state and unsafe code are, and what documents and manifests name.

mod arrows;
mod circles;
mod doc_paths;
mod manifests;
mod statics;
mod tree;
mod unsafe_files;
