//! Random sequences of writes, reads and lengths, compared with a plain vector of bytes.

#![expect(clippy::cast_possible_truncation, reason = "the numbers of these tests are small")]
#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    fs::{self, File},
    os::unix::fs::FileExt,
    time::Duration,
};

use forebay_stage::{Area, AreaSettings, CloseWhen, RedoFile, StageOptions};
use proptest::prelude::*;

#[derive(Clone, Debug)]
enum Step {
    Write { at: u64, len: usize, byte: u8 },
    Read { at: u64, len: usize },
    SetLen(u64),
    Stage,
    Drain,
    Pause(bool),
    Wait,
}

fn step() -> impl Strategy<Value = Step> {
    let place = 0..300_000_u64;
    prop_oneof![
        12 => (place.clone(), 1..60_000_usize, 1..=255_u8)
            .prop_map(|(at, len, byte)| Step::Write { at, len, byte }),
        6 => (place.clone(), 1..90_000_usize).prop_map(|(at, len)| Step::Read { at, len }),
        2 => place.prop_map(Step::SetLen),
        1 => Just(Step::Stage),
        1 => Just(Step::Drain),
        2 => any::<bool>().prop_map(Step::Pause),
        1 => Just(Step::Wait),
    ]
}

fn write(model: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let (at, end) = (at as usize, at as usize + bytes.len());
    if model.len() < end {
        model.resize(end, 0);
    }
    model[at..end].copy_from_slice(bytes);
}

fn bytes_of(at: u64, len: usize, byte: u8) -> Vec<u8> {
    (0..len).map(|index| byte ^ ((at as usize + index) / 997) as u8).collect()
}

fn read(file: &RedoFile, at: u64, into: &mut [u8]) {
    let beneath = |offset: u64, into: &mut [u8]| {
        into.fill(0);
        let mut done = 0;
        while let Ok(len @ 1..) = file.file().read_at(&mut into[done..], offset + done as u64) {
            done += len;
        }
        Ok(())
    };
    file.read_at(at, into, &beneath).unwrap();
}

fn settings(folder: Option<&std::path::Path>, quota: u64) -> AreaSettings {
    let settings = folder.map_or_else(AreaSettings::memory, AreaSettings::folder);
    AreaSettings { quota, free_floor: 0, memory: 32 << 20, ..settings }
}

fn check_update(steps: &[Step], in_memory: bool, quota: u64) {
    let folder = tempfile::tempdir().unwrap();
    let area = Area::open(settings((!in_memory).then_some(folder.path()), quota)).unwrap();
    let path = folder.path().join("file");
    let mut model = vec![7; 100_000];
    fs::write(&path, &model).unwrap();
    let plain = File::options().read(true).write(true).open(&path).unwrap();
    let file = area.update(&path, plain, StageOptions::default()).unwrap();
    for step in steps {
        match *step {
            Step::Write { at, len, byte } => {
                let bytes = bytes_of(at, len, byte);
                file.write_at(at, &bytes).unwrap();
                write(&mut model, at, &bytes);
            }
            Step::Read { at, len } => {
                let mut found = vec![1; len];
                read(&file, at, &mut found);
                let mut expected = vec![0; len];
                let inside = model.get(at as usize..).unwrap_or_default();
                let inside = &inside[..inside.len().min(len)];
                expected[..inside.len()].copy_from_slice(inside);
                assert!(found == expected, "read {at} {len}");
            }
            Step::SetLen(len) => {
                file.truncate(len).unwrap();
                model.resize(len as usize, 0);
            }
            Step::Stage => file.stage().unwrap(),
            Step::Drain => {
                file.drain().unwrap();
                assert!(fs::read(&path).unwrap() == model, "drained");
            }
            Step::Pause(true) => area.pause(),
            Step::Pause(false) => area.resume(),
            Step::Wait => std::thread::sleep(Duration::from_millis(25)),
        }
    }
    file.close(CloseWhen::Staged).unwrap();
    area.close().unwrap();
    assert!(fs::read(&path).unwrap() == model, "closed");
    assert!(area.items().unwrap().is_empty());
}

fn check_create(steps: &[Step], in_memory: bool, quota: u64) {
    let folder = tempfile::tempdir().unwrap();
    let area = Area::open(settings((!in_memory).then_some(folder.path()), quota)).unwrap();
    let path = folder.path().join("file");
    let mut model = Vec::new();
    let file = area.create(&path, StageOptions::default()).unwrap();
    for step in steps {
        match *step {
            Step::Write { at, len, byte } => {
                let bytes = bytes_of(at, len, byte);
                file.write_at(at, &bytes).unwrap();
                write(&mut model, at, &bytes);
            }
            Step::Read { at, len } => {
                let mut found = vec![1; len];
                let count = file.read_at(at, &mut found).unwrap();
                let expected = model.get(at as usize..).unwrap_or_default();
                assert!(found[..count] == expected[..expected.len().min(len)], "read {at} {len}");
            }
            Step::SetLen(len) => {
                file.set_len(len).unwrap();
                model.resize(len as usize, 0);
            }
            _ => {}
        }
        assert_eq!(file.len().unwrap(), model.len() as u64);
    }
    let sealed = file.seal().unwrap();
    area.close().unwrap();
    assert!(sealed.durable().is_set());
    assert!(fs::read(&path).unwrap() == model, "durable");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn an_updated_file_is_at_every_moment_what_a_plain_file_would_be(
        steps in prop::collection::vec(step(), 1..60),
        in_memory: bool,
        quota in prop_oneof![Just(0_u64), Just(200_000), Just(1 << 20), Just(64 << 20)],
    ) {
        check_update(&steps, in_memory, quota);
    }

    #[test]
    fn a_new_file_is_at_every_moment_what_a_plain_file_would_be(
        steps in prop::collection::vec(step(), 1..60),
        in_memory: bool,
        quota in prop_oneof![Just(0_u64), Just(200_000), Just(1 << 20), Just(64 << 20)],
    ) {
        check_create(&steps, in_memory, quota);
    }
}
