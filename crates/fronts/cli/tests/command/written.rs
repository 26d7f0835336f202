//! Files made by h5py for a test.

use std::{path::PathBuf, process::Command};

/// What a script wrote with h5py, and what it said of it.
pub(crate) struct Written {
    folder: tempfile::TempDir,
    /// What the script printed, as JSON.
    pub(crate) facts: serde_json::Value,
}

impl Written {
    /// Runs `script`, which writes into `folder` and puts what h5py sees into `facts`.
    pub(crate) fn by(script: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder for temporary files");
        let python = std::env::var_os("FOREBAY_PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
        let whole = format!(
            "import h5py, json, numpy as np, sys\nfolder, facts = sys.argv[1], {{}}\n{script}\nprint(json.dumps(facts))"
        );
        let done = Command::new(python).arg("-c").arg(whole).arg(folder.path()).output();
        let done = done.expect("FOREBAY_PYTHON is a Python with h5py");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let facts = serde_json::from_slice(&done.stdout).expect("facts are JSON");
        Self { folder, facts }
    }

    /// The file `name` in the folder.
    pub(crate) fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

/// Two files of compressed images with labels, and one of graphs.
pub(crate) const SETS: &str = "
rng = np.random.default_rng(7)
counts = [150, 85]
for number, count in enumerate(counts):
    with h5py.File(f'{folder}/train_{number}.h5', 'w') as file:
        images = np.round(rng.random((count, 16, 16)), 2).astype('f4')
        file.create_dataset('image', data=images, chunks=(8, 16, 16), compression='gzip', shuffle=True)
        file['label'] = np.arange(count)
        file['mean'] = 0.5
        file['names'] = ['a', 'b']
lens = rng.integers(0, 30, 60)
with h5py.File(f'{folder}/graphs.h5', 'w') as file:
    file['ptr'] = np.concatenate([[0], np.cumsum(lens)])
    file.create_dataset('pos', data=rng.random((lens.sum(), 3)), chunks=(50, 3), compression='gzip')
    file['z'] = np.zeros(lens.sum(), 'u1')
    file['y'] = np.arange(60, dtype='f4')
with h5py.File(f'{folder}/train_0.h5') as one, h5py.File(f'{folder}/train_1.h5') as two:
    facts['images'] = sum(f['image'].size * f['image'].dtype.itemsize for f in (one, two))
    facts['labels'] = sum(f['label'].size * f['label'].dtype.itemsize for f in (one, two))
    facts['stored'] = sum(f['image'].id.get_storage_size() for f in (one, two))
    facts['chunks'] = sum(f['image'].id.get_num_chunks() for f in (one, two))
    facts['count'] = sum(len(f['image']) for f in (one, two))
with h5py.File(f'{folder}/graphs.h5') as file:
    facts['graphs'] = len(file['y'])
    facts['graph_bytes'] = file['pos'].nbytes + file['z'].nbytes + file['y'].nbytes
";
