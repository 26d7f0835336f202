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

#[test]
fn a_lock_costs_the_same_whatever_their_number() {
    let set = Set::new(&[("a", 60_000)]);
    set.place(&["a"]);
    let folder = set.origin().with_file_name("locked");
    std::fs::create_dir(&folder).unwrap();
    let arguments = [set.path("a").display().to_string(), folder.display().to_string()];
    let ran = set.run(c_program("lock_cost"), &[&arguments[0], &arguments[1]]).good();
    let seconds: Vec<f64> = ran.split_whitespace().map(|word| word.parse().unwrap()).collect();
    println!("100 locks: {} s for the first, {} s after 700 others", seconds[0], seconds[1]);
    assert!(seconds[1] < 3.0 * seconds[0] + 0.02, "{seconds:?}");
}
