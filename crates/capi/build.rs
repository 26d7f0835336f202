//! The library is known to programs as `libforebay.so.1`, by the version of its ABI; it stays mapped once it is loaded, as its
//! threads and handlers outlive the call that would unload it. Which symbols it shows is the compiler's to say: those of
//! `extern "C"` functions alone, all called `forebay_*`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libforebay.so.1");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
