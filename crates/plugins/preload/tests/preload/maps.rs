//! Maps of copies: what they cost, and what they show once the program writes to the file.

use crate::support::{Set, c_program};

const LEN: usize = 300_000;

#[test]
fn maps_show_what_is_written_keep_what_is_stored_and_hold_no_lock() {
    let files = ["a", "b", "c", "d", "e"].map(|name| (name, LEN));
    let set = Set::new(&files);
    let mut arguments: Vec<_> = files.iter().map(|(name, _)| set.path(name)).collect();
    arguments.push(set.tier().to_owned());
    set.same_each_anew(&c_program("maps"), &arguments, &files);
}

#[test]
fn children_forked_while_threads_map_and_write_never_wait_for_them() {
    let set = Set::new(&[("a", LEN), ("b", LEN)]);
    set.place(&["a", "b"]);
    let paths = ["a", "b"].map(|name| set.path(name).display().to_string());
    let ran = set.run(c_program("maps"), &["forks", &paths[0], &paths[1]]);
    assert_eq!(ran.good(), "ended 300\n");
}

#[test]
fn a_map_costs_no_more_than_an_open_whatever_their_number() {
    let names: Vec<String> = (0..900).map(|index| format!("m{index}")).collect();
    let files: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 3000)).collect();
    let set = Set::new(&files);
    set.place(&names.iter().map(String::as_str).collect::<Vec<_>>());
    let paths: Vec<String> = names.iter().map(|name| set.path(name).display().to_string()).collect();
    let arguments: Vec<&str> = ["many"].into_iter().chain(paths.iter().map(String::as_str)).collect();
    let ran = set.run(c_program("maps"), &arguments).good();
    let seconds: Vec<f64> = ran.split_whitespace().map(|word| word.parse().unwrap()).collect();
    println!("900 files: {} s to open, {} s to open and map", seconds[0], seconds[1]);
    assert!(seconds[1] < 3.0 * seconds[0] + 0.1, "{seconds:?}");
}

#[test]
fn a_program_whose_allocator_unmaps_memory_under_a_lock_of_its_own_goes_on() {
    let set = Set::new(&[("a", LEN)]);
    set.place(&["a"]);
    let path = set.path("a").display().to_string();
    let script = format!("timeout 60 {} {path}", c_program("allocator").display());
    assert_eq!(set.run("sh", &["-c", &script]).good(), "went on\n");
}

#[test]
fn a_map_that_may_be_run_is_one_of_the_origin() {
    let set = Set::new(&[("a", LEN)]);
    set.place(&["a"]);
    let script = format!(
        "import mmap\nf = open('{}', 'rb')\nmaps = [mmap.mmap(f.fileno(), 4096, prot=p) for p in (mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_EXEC)]\n\
         for line in open('/proc/self/maps'):\n  if '{}' in line or 'forebay-tier-' in line: print(line.split()[1], 'forebay-tier-' in line)",
        set.path("a").display(),
        set.path("a").display(),
    );
    let shown = set.run("python3", &["-c", &script]).good();
    let mut shown: Vec<&str> = shown.lines().collect();
    shown.sort_unstable();
    assert_eq!(shown, ["r--s True", "r-xs False"]);
}
