//! Faults that were found, one test each, so that they stay away.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{
    path::PathBuf,
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use bytes::Bytes;
use forebay_container::{Container, Selection};
use forebay_format::{Opened, describe};
use forebay_process::Result;
use forebay_source::{
    ByteRange, FileOrigin, Fill, Locator, Origin, Source, SourceId, Trust, fill_by_fetching,
};

/// What `script` writes with h5py: `a.h5` in its `folder`, and files beside it.
struct Written {
    folder: tempfile::TempDir,
}

impl Written {
    fn by(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let python = std::env::var_os("FOREBAY_PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
        let whole = format!("import h5py, numpy as np, sys\nfolder = sys.argv[1]\n{script}");
        let done = Command::new(python).arg("-c").arg(whole).arg(folder.path()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Self { folder }
    }

    fn describe(&self) -> Container {
        let origin = FileOrigin::under(self.folder.path());
        describe(&origin, &Locator::new("a.h5")).unwrap()
    }

    fn open(&self) -> Opened {
        let origin = Arc::new(FileOrigin::under(self.folder.path()));
        Opened::new(origin, Arc::new(self.describe()))
    }
}

/// A dense group's heap was read anew for every link: its metadata came to many times the file's length.
#[test]
fn a_group_of_many_dense_links_reads_its_heap_once() {
    let written = Written::by(
        "with h5py.File(f'{folder}/a.h5', 'w', libver='latest') as file:\n\
         \x20   for number in range(20000): file.create_group(f'a group with number {number}')",
    );
    assert_eq!(written.describe().groups.len(), 20_001);
}

/// Every source kept its pages, and was searched for among all others.
#[test]
fn a_virtual_data_set_of_a_thousand_sources_is_found_through_ten_thousand_links() {
    let written = Written::by(
        "layout = h5py.VirtualLayout((1000, 4), '<i4')\n\
         for number in range(1000):\n\
         \x20   with h5py.File(f'{folder}/{number}.h5', 'w') as part: part['x'] = np.full(4, number, '<i4')\n\
         \x20   layout[number] = h5py.VirtualSource(f'{number}.h5', 'x', (4,))\n\
         with h5py.File(f'{folder}/a.h5', 'w', libver='latest') as file:\n\
         \x20   file.create_virtual_dataset('v', layout)\n\
         \x20   for number in range(10000): file[f's{number}'] = h5py.SoftLink('/v')",
    );
    let opened = written.open();
    assert_eq!((opened.container().sources.len(), opened.container().aliases.len()), (1001, 10_000));
    let variable = opened.container().variable("s777").unwrap();
    let array = opened.read(variable, &Selection::parse("-1", &variable.grid.shape).unwrap()).unwrap();
    assert_eq!(array.values, forebay_container::Values::Fixed(999i32.to_le_bytes().repeat(4)));
}

/// One element of a variable as text.
fn texts(opened: &Opened, name: &str) -> Vec<String> {
    let variable = opened.container().variable(name).unwrap();
    opened.read(variable, &Selection::all(&variable.grid.shape)).unwrap().texts().unwrap()
}

/// Each hop gave the files new names, `./././a.h5`, and so new objects without end.
#[test]
fn files_that_link_to_each_other_by_winding_paths_end() {
    let written = Written::by(
        "for one, other in (('a', 'b'), ('b', 'a')):\n\
         \x20   with h5py.File(f'{folder}/{one}.h5', 'w') as file:\n\
         \x20       file['x'] = 1\n\
         \x20       file['there'] = h5py.ExternalLink(f'./{other}.h5', '/')\n\
         \x20       file['here'] = h5py.ExternalLink(f'./.././{folder.split(\"/\")[-1]}/{one}.h5', '/')",
    );
    let container = written.describe();
    assert!(container.sources.len() <= 4, "{:?}", container.sources);
    assert!(container.variable("there/x").is_ok());
}

/// Names with `%%` were looked for as they stand, not found, and read as the fill value.
#[test]
fn a_source_whose_name_has_a_percent_sign_is_found() {
    let written = Written::by(
        "with h5py.File(f'{folder}/p%a.h5', 'w') as part: part['x'] = np.arange(5, dtype='<i4')\n\
         layout = h5py.VirtualLayout((5,), '<i4')\n\
         layout[:] = h5py.VirtualSource('p%%a.h5', 'x', (5,))\n\
         with h5py.File(f'{folder}/a.h5', 'w', libver='latest') as file:\n\
         \x20   file.create_virtual_dataset('v', layout, fillvalue=-1)",
    );
    let opened = written.open();
    let variable = opened.container().variable("v").unwrap();
    let array = opened.read(variable, &Selection::all(&[5])).unwrap();
    let wanted: Vec<u8> = (0..5i32).flat_map(i32::to_le_bytes).collect();
    assert_eq!(array.values, forebay_container::Values::Fixed(wanted));
}

/// The header of a committed type was read anew for every variable of that type.
#[test]
fn a_committed_type_of_many_members_serves_many_variables() {
    let written = Written::by(
        "with h5py.File(f'{folder}/a.h5', 'w') as file:\n\
         \x20   file['type'] = np.dtype([(f'member number {n}', '<f8') for n in range(600)])\n\
         \x20   committed, space = file['type'].id, h5py.h5s.create_simple((1,))\n\
         \x20   for n in range(1500): h5py.h5d.create(file.id, b'd%d' % n, committed, space)",
    );
    let container = written.describe();
    assert_eq!((container.variables.len(), container.refused.len()), (1500, 0));
}

/// The start of a long name was cut in the middle of a letter.
#[test]
fn groups_nested_too_deep_under_long_letters_are_an_error() {
    let written = Written::by(
        "with h5py.File(f'{folder}/a.h5', 'w') as file:\n\
         \x20   group = file\n\
         \x20   for _ in range(2100): group = group.create_group('é')",
    );
    let origin = FileOrigin::under(written.folder.path());
    let error = describe(&origin, &Locator::new("a.h5")).unwrap_err();
    assert_eq!(error.kind(), forebay_process::ErrorKind::Corrupt);
}

/// A fill value of any length may be repeated more often than the file is long.
#[test]
fn a_repeated_text_may_come_to_more_than_its_file() {
    let written = Written::by(
        "with h5py.File(f'{folder}/a.h5', 'w') as file:\n\
         \x20   file.create_dataset('v', (3000000,), h5py.string_dtype(), fillvalue='hello world')",
    );
    let opened = written.open();
    let variable = opened.container().variable("v").unwrap();
    assert_eq!(
        opened.read(variable, &Selection::all(&[3_000_000])).unwrap().texts().unwrap()[2_999_999],
        "hello world"
    );
    let little = written.open().with_budget(1 << 20);
    let error = little.read(variable, &Selection::all(&[3_000_000])).unwrap_err();
    assert_eq!(error.kind(), forebay_process::ErrorKind::Full);
}

/// Texts behind an external link were looked for in the file the link stands in.
#[test]
fn a_text_behind_an_external_link_lies_in_the_file_it_leads_to() {
    let written = Written::by(
        "with h5py.File(f'{folder}/b.h5', 'w') as file:\n\
         \x20   file.create_dataset('v', (3,), h5py.string_dtype(), fillvalue='abc')\n\
         with h5py.File(f'{folder}/a.h5', 'w') as file: file['v'] = h5py.ExternalLink('b.h5', '/v')",
    );
    assert_eq!(texts(&written.open(), "v"), ["abc"; 3]);
}

/// The end of the file was compared without minding where the file once started.
#[test]
fn a_file_whose_user_block_was_cut_off_is_whole() {
    let written = Written::by(
        "with h5py.File(f'{folder}/with.h5', 'w', userblock_size=512) as file: file['v'] = np.arange(3)\n\
         whole = open(f'{folder}/with.h5', 'rb').read()\n\
         open(f'{folder}/a.h5', 'wb').write(whole[512:])",
    );
    assert_eq!(written.describe().variable("v").unwrap().grid.shape, [3]);
}

/// Entries of a virtual data set that are a few bytes long were cut into any number of lines.
#[test]
fn mappings_between_boxes_of_different_shape_are_cut_up_to_a_limit() {
    let written = Written::by(
        "with h5py.File(f'{folder}/a.h5', 'w', libver='latest') as file:\n\
         \x20   file['s'] = np.zeros((30000, 2), 'i1')\n\
         \x20   layout = h5py.VirtualLayout((200, 30000), 'i1')\n\
         \x20   for n in range(0, 200, 2): layout[n:n + 2] = h5py.VirtualSource('.', 's', (30000, 2))\n\
         \x20   file.create_virtual_dataset('v', layout)",
    );
    let container = written.describe();
    let v = container.variable("v").unwrap();
    assert!(
        matches!(&v.extents, forebay_container::Extents::Opaque(opaque) if opaque.why.contains("different shape"))
    );
}

/// Rows of what is not in chunks were read with all that lies between them.
#[test]
fn rows_far_apart_in_a_virtual_data_set_take_no_more_than_themselves() {
    let written = Written::by(
        "with h5py.File(f'{folder}/a.h5', 'w', libver='latest') as file:\n\
         \x20   file['s'] = np.arange(4000, dtype='<i4').reshape(1000, 4)\n\
         \x20   layout = h5py.VirtualLayout((1000, 4), '<i4')\n\
         \x20   layout[:] = h5py.VirtualSource('.', 's', (1000, 4))\n\
         \x20   file.create_virtual_dataset('v', layout)",
    );
    let opened = written.open().with_budget(64);
    let variable = opened.container().variable("v").unwrap();
    let mut out = vec![0; 32];
    opened.read_rows(variable, &[999, 0], &mut out).unwrap();
    let wanted: Vec<u8> = (3996..4000i32).chain(0..4).flat_map(i32::to_le_bytes).collect();
    assert_eq!(out, wanted);
}

/// A saved description of a virtual data set would have hidden a source that came later.
#[test]
fn sources_that_are_missing_are_named_in_the_description() {
    let written = Written::by(
        "layout = h5py.VirtualLayout((5,), '<i4')\n\
         layout[:] = h5py.VirtualSource('later.h5', 'x', (5,))\n\
         with h5py.File(f'{folder}/a.h5', 'w', libver='latest') as file:\n\
         \x20   file.create_virtual_dataset('v', layout, fillvalue=-1)\n\
         \x20   file.create_dataset('raw', (4,), '<i4', external=[('values.bin', 0, 16)])\n\
         \x20   file['link'] = h5py.ExternalLink('other.h5', '/x')",
    );
    assert_eq!(written.describe().absent, ["later.h5", "other.h5", "values.bin"].map(Locator::new));
}

/// One chunk wider than its array was taken for a contiguous array: rows came from the wrong places.
#[test]
fn rows_of_a_chunk_that_is_wider_than_its_array_skip_its_padding() {
    let written = Written::by(
        "with h5py.File(f'{folder}/a.h5', 'w') as file:\n\
         \x20   file.create_dataset('v', data=np.arange(15, dtype='<i4').reshape(5, 3), chunks=(8, 4), maxshape=(None, None))",
    );
    let opened = written.open();
    let variable = opened.container().variable("v").unwrap();
    let mut out = vec![0; 24];
    opened.read_rows(variable, &[4, 1], &mut out).unwrap();
    let wanted: Vec<u8> = [12, 13, 14, 3, 4, 5i32].iter().flat_map(|value| value.to_le_bytes()).collect();
    assert_eq!(out, wanted);
}

/// Counts how many threads are at a source at once.
#[derive(Debug, Default)]
struct Crowd {
    now: AtomicUsize,
    most: AtomicUsize,
}

#[derive(Debug)]
struct CrowdOrigin(FileOrigin, Arc<Crowd>);

#[derive(Debug)]
struct CrowdSource(Arc<dyn Source>, Arc<Crowd>);

impl Origin for CrowdOrigin {
    fn open(&self, at: &Locator) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(CrowdSource(self.0.open(at)?, Arc::clone(&self.1))))
    }

    fn list(&self, under: &Locator) -> Result<Vec<Locator>> {
        self.0.list(under)
    }

    fn survey(&self, under: &Locator) -> Result<Vec<SourceId>> {
        self.0.survey(under)
    }
}

impl Source for CrowdSource {
    fn id(&self) -> &SourceId {
        self.0.id()
    }

    fn fetch(&self, ranges: &[ByteRange]) -> Result<Vec<Bytes>> {
        self.1.most.fetch_max(self.1.now.fetch_add(1, SeqCst) + 1, SeqCst);
        // Long enough for another thread to come, were it let.
        thread::sleep(Duration::from_millis(20));
        let read = self.0.fetch(ranges);
        self.1.now.fetch_sub(1, SeqCst);
        read
    }

    fn copy_into(&self, fills: &mut [Fill<'_>]) -> Result<Trust> {
        fill_by_fetching(self, fills)
    }

    fn verify(&self) -> Result<()> {
        Ok(())
    }

    fn request_bytes(&self) -> u64 {
        0
    }

    fn will_read(&self, _: ByteRange) {}
}

/// Every thread of the pool took a chunk and two intermediate results, whatever the budget was.
#[test]
fn no_more_threads_decode_at_once_than_the_budget_has_room_for() {
    let written = Written::by(
        "with h5py.File(f'{folder}/a.h5', 'w') as file:\n\
         \x20   file.create_dataset('v', (16, 65536), '<u4', chunks=(1, 65536), compression='gzip', shuffle=True)\n\
         \x20   file['v'][:] = np.arange(16 * 65536).reshape(16, 65536)",
    );
    let crowd = Arc::new(Crowd::default());
    let origin = CrowdOrigin(FileOrigin::under(written.folder.path()), Arc::clone(&crowd));
    let opened = Opened::new(Arc::new(origin), Arc::new(written.describe()));
    let variable = opened.container().variable("v").unwrap().clone();
    let all = Selection::all(&[16, 65536]);
    opened.read(&variable, &all).unwrap();
    let free = crowd.most.swap(0, SeqCst);
    assert!(free > 1 || thread::available_parallelism().is_ok_and(|cores| cores.get() == 1));
    // A thread takes 0.8 MiB for a chunk of 0.25 MiB.
    let one = opened.with_budget(1 << 20);
    one.read(&variable, &Selection::from_ranges(&[0..4, 0..65536])).unwrap();
    assert_eq!(crowd.most.load(SeqCst), 1);
}
