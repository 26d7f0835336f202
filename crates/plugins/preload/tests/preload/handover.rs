//! Descriptors that are opened again, handed on, interrupted or closed by number: what a program does with them besides reading.

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

use crate::support::{Set, bytes, c_program};

#[test]
fn a_descriptor_that_is_opened_once_more_by_its_path_writes_to_the_origin() {
    let names = ["a", "b", "c", "d", "e"];
    let set = Set::new(&names.map(|name| (name, 200_000)));
    let paths = names.map(|name| set.path(name));
    set.same_each_anew(&c_program("reopen"), &paths, &names.map(|name| (name, 200_000)));
}

#[test]
fn a_copy_is_changed_by_no_path_to_its_descriptor_however_it_is_spelled() {
    let names: Vec<String> = (0..19).map(|index| format!("f{index}")).collect();
    let files: Vec<(&str, usize)> = names.iter().map(|name| (name.as_str(), 200_000)).collect();
    let set = Set::new(&files);
    let paths: Vec<PathBuf> = names.iter().map(|name| set.path(name)).collect();
    set.same_each_anew(&c_program("spellings"), &paths, &files);
}

#[test]
fn a_program_reads_what_it_writes_by_duplicates_and_maps() {
    let files = [("a", 300_000), ("b", 300_000)];
    let set = Set::new(&files);
    set.same_each_anew(&c_program("own_writes"), &[set.path("a"), set.path("b")], &files);
}

#[test]
fn a_program_that_closes_all_numbers_reads_on_and_finds_nothing_of_ours_in_its_files() {
    let names = ["a", "b", "c"];
    let set = Set::new(&names.map(|name| (name, 2_500_000)));
    let outside = set.origin().with_file_name("outside");
    fs::create_dir(&outside).unwrap();
    for how in ["loop", "range", "from", "listed"] {
        for entry in fs::read_dir(set.tier()).unwrap().flatten() {
            fs::remove_dir_all(entry.path()).unwrap();
        }
        let mut arguments = vec![PathBuf::from(how), outside.clone()];
        arguments.extend(names.map(|name| set.path(name)));
        set.same_cold_and_warm(&c_program("numbers"), &arguments, &names);
    }
    for name in names {
        assert_eq!(fs::read(set.path(name)).unwrap(), bytes(name, 2_500_000));
    }
}

#[test]
fn a_program_may_open_as_many_files_as_its_limit_allows() {
    let names = ["a", "b", "c"];
    let set = Set::new(&names.map(|name| (name, 100_000)));
    set.place(&names);
    let paths: Vec<String> = names.iter().map(|name| set.path(name).display().to_string()).collect();
    let program = c_program("numbers");
    for limit in ["-n 64", "-n 256", "-Sn 64", "-Sn 256", "-Sn 1024"] {
        let script = format!("ulimit {limit}; exec {} many /tmp {}", program.display(), paths.join(" "));
        let plain = set.plain("bash").args(["-c", &script]).output().unwrap();
        let ran = set.run("bash", &["-c", &script]);
        assert_eq!(ran.good(), String::from_utf8_lossy(&plain.stdout), "{limit}");
    }
}

#[test]
fn signal_handlers_may_use_the_descriptor_that_is_in_use_and_end_a_transfer_that_waits() {
    let set = Set::new(&[("a", 40 << 20)]);
    let arguments = [set.path("a")];
    // Cold, so that it is read block by block; it is too long to be placed meanwhile.
    let program = c_program("handlers");
    let plain = set.plain(&program).args(&arguments).output().unwrap();
    let ran = set.run(&program, &[set.path("a").to_str().unwrap()]);
    assert_eq!(ran.good(), String::from_utf8_lossy(&plain.stdout));
    set.same_cold_and_warm(&program, &arguments, &["a"]);
}

#[test]
fn requests_to_the_file_system_messages_and_programs_that_are_run_get_the_origin() {
    let set = Set::new(&[("a", 200_000)]);
    fs::write(set.path("script"), "#!/bin/sh\necho ran with \"$1\"\n").unwrap();
    fs::set_permissions(set.path("script"), fs::Permissions::from_mode(0o755)).unwrap();
    set.settle();
    set.same_cold_and_warm(&c_program("handover"), &[set.path("a"), set.path("script")], &["a", "script"]);
}
