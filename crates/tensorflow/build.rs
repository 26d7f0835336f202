//! The library stays mapped once it is loaded: its threads outlive the call that would unload it. Functions that crates it is made of
//! have for C lie in archives, whose symbols are left out.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
