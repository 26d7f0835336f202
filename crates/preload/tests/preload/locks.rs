//! Locks of programs hold as long as they do without the library.

use crate::support::{Set, c_program};

#[test]
fn a_record_lock_holds_until_the_program_closes_a_descriptor_of_its_own() {
    let names = ["a", "b", "c", "d"];
    let set = Set::new(&names.map(|name| (name, 3_000_000)));
    set.same_cold_and_warm(&c_program("locks"), &names.map(|name| set.path(name)), &names);
}

#[test]
fn locks_on_many_files_leave_no_descriptors_behind() {
    let names: Vec<String> = (0..40).map(|index| format!("f{index}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let set = Set::new(&names.iter().map(|name| (*name, 60_000)).collect::<Vec<_>>());
    let paths: Vec<_> = names.iter().map(|name| set.path(name)).collect();
    set.same_cold_and_warm(&c_program("many_locks"), &paths, &names);
}
