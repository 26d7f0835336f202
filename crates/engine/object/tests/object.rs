//! Objects of a store, read as any other source is: in memory here, so that everything but the network is tried.
#![expect(clippy::unwrap_used, reason = "what the tests share is part of the tests")]

use std::{sync::Arc, thread};

use bytes::Bytes;
use forebay_object::ObjectOrigin;
use forebay_process::ErrorKind;
use forebay_source::{ByteRange, Fill, Locator, Origin, SourceExt, Version, check};
use object_store::{ObjectStore, ObjectStoreExt, local::LocalFileSystem, memory::InMemory, path::Path};
use tempfile::TempDir;

const BUCKET: &str = "s3://bucket";

fn bytes(len: usize, seed: usize) -> Bytes {
    (0..len).map(|index| (index * 2_654_435_761 / 977 + seed).to_le_bytes()[0]).collect()
}

fn locator(key: &str) -> Locator {
    Locator::new(format!("{BUCKET}/{key}"))
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap()
}

fn put(store: &dyn ObjectStore, key: &str, bytes: Bytes) {
    runtime().block_on(store.put(&Path::parse(key).unwrap(), bytes.into())).unwrap();
}

/// A bucket of one object, and where it is.
fn one(len: usize) -> (Arc<InMemory>, ObjectOrigin, Locator) {
    let store = Arc::new(InMemory::new());
    put(&*store, "d/a.bin", bytes(len, 0));
    let origin = ObjectOrigin::new().with_store(BUCKET, Arc::clone(&store) as _);
    (store, origin, locator("d/a.bin"))
}

fn keeps_the_contract(store: Arc<dyn ObjectStore>) {
    let named =
        [("d/z.bin", 100_003), ("d/a/b.bin", 8192), ("d/a.bin", 1), ("d/empty.bin", 0), ("d/a/c/d.bin", 17)];
    let expected: Vec<_> = named.iter().map(|(key, len)| (locator(key), bytes(*len, *len))).collect();
    for ((key, _), (_, bytes)) in named.iter().zip(&expected) {
        put(&*store, key, bytes.clone());
    }
    put(&*store, "elsewhere.bin", bytes(5, 0));
    let origin = ObjectOrigin::new().with_store(BUCKET, store);
    for (at, bytes) in &expected {
        check::every_source_clause(&*origin.open(at).unwrap(), bytes);
        check::reopening_gives_an_equal_id(&origin, at);
    }
    check::what_is_missing_is_not_found(&origin, &locator("d/missing.bin"));
    check::a_list_is_sorted_and_every_name_opens(&origin, &locator("d"), &expected);
    check::a_list_is_sorted_and_every_name_opens(&origin, &locator("d/"), &expected);
    assert_eq!(origin.list(&Locator::new(BUCKET)).unwrap().len(), 6);
    assert_eq!(origin.list(&locator("nothing")).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn a_store_in_memory_keeps_the_contract() {
    keeps_the_contract(Arc::new(InMemory::new()));
}

#[test]
fn a_store_in_a_folder_keeps_the_contract() {
    let folder = TempDir::new().unwrap();
    keeps_the_contract(Arc::new(LocalFileSystem::new_with_prefix(folder.path()).unwrap()));
}

#[test]
fn long_ranges_come_in_parts_and_in_order() {
    let (_store, origin, at) = one(40_000_000);
    let source = origin.open(&at).unwrap();
    check::ranges_may_touch_and_overlap(&*source, &bytes(40_000_000, 0));
    check::fills_hold_what_is_lent(&*source, &bytes(40_000_000, 0));
}

#[test]
fn objects_are_far_and_their_versions_are_tags() {
    let (_store, origin, at) = one(10);
    let source = origin.open(&at).unwrap();
    assert_eq!(source.request_bytes(), 4 << 20);
    assert_eq!(source.id().version.modified, None);
    assert_ne!(source.id().version, Version::named(""));
}

#[test]
fn an_object_that_is_overwritten_is_an_error_until_it_is_opened_again() {
    let (store, origin, at) = one(100_000);
    let source = origin.open(&at).unwrap();
    source.fetch_one(ByteRange::at(0, 10)).unwrap();
    put(&*store, "d/a.bin", bytes(100_000, 1));
    let error = source.fetch_one(ByteRange::at(0, 10)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(error.to_string().contains("s3://bucket/d/a.bin"), "{error}");
    let mut memory = [0; 10];
    source.fetch_into(&mut [Fill { range: ByteRange::at(0, 10), into: &mut memory }]).unwrap_err();
    let again = origin.open(&at).unwrap();
    assert_ne!(again.id(), source.id());
    assert_eq!(again.fetch_one(ByteRange::at(0, 10)).unwrap(), bytes(100_000, 1)[..10]);
}

#[test]
fn an_object_that_is_deleted_has_changed() {
    let (store, origin, at) = one(1000);
    let source = origin.open(&at).unwrap();
    runtime().block_on(store.delete(&Path::from("d/a.bin"))).unwrap();
    let error = source.fetch_one(ByteRange::at(0, 10)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert_eq!(origin.open(&at).unwrap_err().kind(), ErrorKind::NotFound);
}

#[test]
fn what_is_no_url_is_refused_even_where_such_a_file_is() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.bin");
    std::fs::write(&path, "secret").unwrap();
    let origin = ObjectOrigin::new();
    let url = format!("file://{}", path.display());
    for name in [path.to_str().unwrap(), "/etc/passwd", "Cargo.toml", &url] {
        let error = origin.open(&Locator::new(name)).unwrap_err();
        assert!(matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Unsupported), "{error}");
        origin.list(&Locator::new(name)).unwrap_err();
    }
}

#[test]
fn a_web_server_cannot_list() {
    let error = ObjectOrigin::new().list(&Locator::new("http://localhost:1/d/")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[test]
fn calls_from_inside_somebodys_runtime_neither_hang_nor_panic() {
    let (_store, origin, at) = one(20_000_000);
    let read = async {
        let source = origin.open(&at).unwrap();
        assert_eq!(
            source.fetch_one(ByteRange::at(5, 10_000_000)).unwrap(),
            bytes(20_000_000, 0)[5..10_000_005]
        );
    };
    runtime().block_on(read);
    let single = tokio::runtime::Builder::new_current_thread().build().unwrap();
    // Even the last owner may leave there.
    single.block_on(async move { drop(origin) });
}

#[test]
fn threads_share_one_origin() {
    let (_store, origin, at) = one(1_000_000);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let source = origin.open(&at).unwrap();
                check::answers_keep_the_order_asked(&*source, &bytes(1_000_000, 0));
            });
        }
    });
}
