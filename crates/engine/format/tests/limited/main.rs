//! Small files that lie, read by a process with little address space: each scene is played in a process of its own.
//!
//! What a file of a few megabytes makes of itself must fit into [`ROOM`], and be done within [`LONGEST`].

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

#[path = "../support/corpus.rs"]
mod corpus;
mod formats;
mod hdf5;
#[path = "../../../../../fuzz/src/skeleton.rs"]
#[expect(dead_code, unreachable_pub, reason = "the fuzzer uses the rest")]
mod skeleton;
#[path = "../../../../../fuzz/src/unpack.rs"]
#[expect(unreachable_pub, reason = "the fuzzer uses it from outside")]
mod unpack;

use std::{
    env,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Address space of the process that plays a scene: its own code and stacks take some 50 MiB of it.
const ROOM: u64 = 640 << 20;
const LONGEST: Duration = Duration::from_secs(120);
const SCENE: &str = "FOREBAY_TEST_SCENE";

/// Plays `scene` in a process of its own.
fn play(scene: &str) {
    let mut child = Command::new(env::current_exe().unwrap())
        .args(["--exact", "stage", "--nocapture", "--test-threads=1"])
        .env(SCENE, scene)
        .stdin(Stdio::null())
        .spawn()
        .unwrap();
    let deadline = Instant::now() + LONGEST;
    let status = loop {
        match child.try_wait().unwrap() {
            Some(status) => break status,
            None if Instant::now() < deadline => thread::sleep(Duration::from_millis(5)),
            None => {
                child.kill().unwrap();
                child.wait().unwrap();
                panic!("'{scene}' takes longer than {LONGEST:?}");
            }
        }
    };
    assert!(status.success(), "'{scene}' ended with {status}");
}

/// Not a test by itself: where the scenes are played.
#[test]
fn stage() {
    let Ok(scene) = env::var(SCENE) else { return };
    let limit = rustix::process::Rlimit { current: Some(ROOM), maximum: Some(ROOM) };
    rustix::process::setrlimit(rustix::process::Resource::As, limit).unwrap();
    match scene.as_str() {
        "budget" => budget_follows_the_limit(),
        "nested sequences" => hdf5::nested_sequences(),
        "names of entries" => hdf5::names_of_entries(),
        "entries of many" => hdf5::entries_of_many(),
        "committed types" => hdf5::committed_types(),
        "shared fill values" => hdf5::shared_fill_values(),
        "names of symbols" => hdf5::names_of_symbols(),
        "names of aliases" => hdf5::names_of_aliases(),
        "nested virtual" => hdf5::nested_virtual(),
        "many collections" => hdf5::many_collections(),
        "implicit chunks" => hdf5::implicit_chunks(),
        "filtered heap" => hdf5::filtered_heap(),
        "unreadable attributes" => hdf5::unreadable_attributes(),
        "zarr strings" => formats::zarr_strings(),
        "zarr" => formats::read_corpus("zarr"),
        "adios" => formats::read_corpus("adios"),
        "silo" => formats::read_corpus("silo"),
        scene => panic!("no scene {scene}"),
    }
}

#[test]
fn a_limit_on_the_address_space_limits_the_budget() {
    play("budget");
}

fn budget_follows_the_limit() {
    let limit = forebay_process::memory_limit();
    assert_eq!((limit.bytes, limit.by), (ROOM, "the limit on the address space (ulimit -v)"));
    assert_eq!(forebay_process::memory_budget(), ROOM / 4 * 3);
}
