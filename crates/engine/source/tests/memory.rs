//! The origin in memory.

use forebay_source::{Locator, MemoryOrigin, Origin};

#[test]
fn a_list_of_a_folder_leaves_out_folders_whose_names_begin_alike() {
    let origin = MemoryOrigin::default().with("set1/a", "1").with("set10/a", "2").with("set1", "3");
    let names = |under: &str| -> Vec<String> {
        let listed = origin.list(&Locator::new(under)).unwrap();
        assert_eq!(origin.survey(&Locator::new(under)).unwrap().len(), listed.len());
        listed.iter().map(|at| at.as_str().to_owned()).collect()
    };
    assert_eq!(names("set1"), ["set1", "set1/a"]);
    assert_eq!(names("set1/"), ["set1", "set1/a"]);
    assert_eq!(names("").len(), 3);
}

#[test]
fn other_bytes_have_another_id_and_the_same_bytes_the_same() {
    let id = |bytes: &'static str| {
        let origin = MemoryOrigin::default().with("a", bytes);
        origin.open(&Locator::new("a")).unwrap().id().clone()
    };
    assert_eq!(id("one"), id("one"));
    assert_ne!(id("one"), id("two"));
}
