//! The library is known to programs as `libforebay.so.1`, by the version of its ABI; it stays mapped once it is loaded, as its
//! threads and handlers outlive the call that would unload it. It shows its own functions alone, `forebay_*`: those that crates it is
//! made of have for C (`crc_fast_*`) lie in archives, whose symbols are left out.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libforebay.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
    println!("cargo:rustc-cdylib-link-arg=-Wl,--exclude-libs,ALL");
}
