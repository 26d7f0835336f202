//! The library stays mapped once it is loaded: its threads and handlers outlive the call that would unload it.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
