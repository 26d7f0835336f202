//! Faults that were found, one test each, so that they stay away.

#![expect(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

use std::{path::PathBuf, process::Command, sync::Arc};

use forebay_format::{Container, Format, Hdf5, Opened, Selection};
use forebay_source::{FileOrigin, Locator};

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
        Hdf5.describe(&origin, &Locator::new("a.h5")).unwrap()
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
    assert_eq!(array.values, forebay_format::Values::Fixed(999i32.to_le_bytes().repeat(4)));
}
