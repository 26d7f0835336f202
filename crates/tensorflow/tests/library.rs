//! The library as TensorFlow gets it. The tests of the Python package load it into TensorFlow.

#[test]
fn the_library_has_the_function_that_tensorflow_looks_for() {
    let library = std::env::current_exe().expect("a path").with_file_name("libforebay_tensorflow.so");
    let bytes = std::fs::read(&library).expect("cargo builds it for the tests");
    for name in ["TF_InitPlugin\0", "forebay_tensorflow_open\0", "forebay_tensorflow_stats\0"] {
        assert!(bytes.windows(name.len()).any(|part| part == name.as_bytes()), "{name}");
    }
}
