//! The library stays mapped once it is loaded: its threads and handlers outlive the call that would unload it. It shows its hooks
//! alone: functions that crates it is made of have for C (`crc_fast_*`) lie in archives, whose symbols are left out.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
