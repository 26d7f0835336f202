//! Faults of HDF5 values that were found, one test each: what libhdf5 reads otherwise, or refuses to read.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot be set up has failed")]

use std::{path::PathBuf, process::Command, sync::Arc};

use forebay_container::{Container, Selection, Values};
use forebay_format::{Opened, describe};
use forebay_process::{Error, ErrorKind, Result};
use forebay_source::{FileOrigin, Locator};

/// What `script` writes with h5py: `a.h5` in its `folder`, and files beside it.
struct Written {
    folder: tempfile::TempDir,
}

impl Written {
    fn by(script: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let python = std::env::var_os("FOREBAY_PYTHON").map_or_else(|| "python3".into(), PathBuf::from);
        let whole = format!(
            "import h5py, numpy as np, os, sys\nfrom h5py import h5d, h5f, h5p, h5s, h5t, h5z\n\
             folder = sys.argv[1]\n{script}"
        );
        let done = Command::new(python).arg("-c").arg(whole).arg(folder.path()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        Self { folder }
    }

    fn try_describe(&self) -> Result<Container> {
        describe(&FileOrigin::under(self.folder.path()), &Locator::new("a.h5"))
    }

    fn refusal(&self) -> Error {
        self.try_describe().unwrap_err()
    }

    fn open(&self) -> Opened {
        let origin = Arc::new(FileOrigin::under(self.folder.path()));
        Opened::new(origin, Arc::new(self.try_describe().unwrap()))
    }
}

/// All of the variable `name`, as it is read.
fn values(opened: &Opened, name: &str) -> Result<Vec<u8>> {
    let variable = opened.variable(name)?;
    match opened.read(variable, &Selection::all(&variable.grid.shape))?.values {
        Values::Fixed(bytes) => Ok(bytes),
        other => panic!("{other:?}"),
    }
}

/// Widened numbers of the parts were taken for stored ones and widened again; a holder shorter than the type panicked.
#[test]
fn a_virtual_data_set_of_odd_numbers_has_the_values_of_its_sources() {
    let written = Written::by(
        "def virtual(file, name, kind, array):\n\
         \x20   source = h5d.create(file.id, name.encode(), kind, h5s.create_simple(array.shape))\n\
         \x20   source.write(h5s.ALL, h5s.ALL, array)\n\
         \x20   plist = h5p.create(h5p.DATASET_CREATE)\n\
         \x20   space = h5s.create_simple((6,))\n\
         \x20   space.select_hyperslab((1,), array.shape)\n\
         \x20   plist.set_virtual(space, b'.', name.encode(), h5s.create_simple(array.shape))\n\
         \x20   h5d.create(file.id, f'{name}_virtual'.encode(), kind, h5s.create_simple((6,)), plist)\n\
         def odd(size, fields, bias):\n\
         \x20   kind = h5t.IEEE_F64LE.copy()\n\
         \x20   kind.set_fields(*fields); kind.set_precision(fields[0] + 1)\n\
         \x20   kind.set_ebias(bias); kind.set_size(size)\n\
         \x20   return kind\n\
         integer = h5t.STD_I32LE.copy(); integer.set_precision(24); integer.set_size(3)\n\
         with h5py.File(f'{folder}/a.h5', 'w', libver='latest') as file:\n\
         \x20   virtual(file, 'i24', integer, np.array([1, -2, 70000, -8388608], '<i4'))\n\
         \x20   virtual(file, 'f8', odd(1, (7, 3, 4, 0, 3), 7), np.array([1.5, -2, 0.25, 240], '<f4'))\n\
         \x20   virtual(file, 'f32', odd(4, (15, 10, 5, 0, 10), 15), np.array([1.5, -2, 0.25, 60000], '<f4'))",
    );
    let opened = written.open();
    let wanted: Vec<u8> = [0, 1, -2, 70_000, -8_388_608, 0i32].iter().flat_map(|n| n.to_le_bytes()).collect();
    assert_eq!(values(&opened, "i24_virtual").unwrap(), wanted);
    let halves = |last: u16| -> Vec<u8> {
        [0, 0x3e00, 0xc000, 0x3400, last, 0].iter().flat_map(|bits: &u16| bits.to_le_bytes()).collect()
    };
    assert_eq!(values(&opened, "f8_virtual").unwrap(), halves(0x5b80));
    assert_eq!(values(&opened, "f32_virtual").unwrap(), halves(0x7b53));
    let variable = opened.variable("i24_virtual").unwrap();
    let mut some = [0; 8];
    opened.read_into(variable, &Selection::parse("3:5", &[6]).unwrap(), &mut some).unwrap();
    assert_eq!(some[..], wanted[12..20]);
}

/// Ids from 32768 on are anyone's to use; some of them were decoded as forebay's own filters.
#[test]
fn a_private_filter_of_a_site_is_an_unknown_filter() {
    let written = Written::by(
        "with h5py.File(f'{folder}/a.h5', 'w', libver='latest') as file:\n\
         \x20   for filter in (32768, 65000, 65015, 65018, 65535):\n\
         \x20       plist = h5p.create(h5p.DATASET_CREATE)\n\
         \x20       plist.set_chunk((4,))\n\
         \x20       plist.set_filter(filter, h5z.FLAG_OPTIONAL, (2, 2))\n\
         \x20       data = h5d.create(file.id, str(filter).encode(), h5t.STD_I32LE, h5s.create_simple((4,)), plist)\n\
         \x20       data.write_direct_chunk((0,), np.arange(4, dtype='<i4').tobytes(), 0)",
    );
    let opened = written.open();
    for id in [32768, 65000, 65015, 65018, 65535] {
        let variable = opened.variable(&id.to_string()).unwrap();
        assert_eq!(variable.filters[0].label(), format!("filter {id}"));
        assert!(!variable.filters[0].is_known());
        let error = values(&opened, &id.to_string()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains(&format!("filter {id} is not supported")), "{error}");
    }
}

/// The numbers of the source were taken for those of the virtual data set, whatever they are called there.
#[test]
fn enumerations_in_a_virtual_data_set_are_converted_by_name() {
    let written = Written::by(
        "def virtual(file, name, source, kind):\n\
         \x20   layout = h5py.VirtualLayout((4,), kind)\n\
         \x20   layout[:] = h5py.VirtualSource('.', source, (4,), dtype=file[source].dtype)\n\
         \x20   file.create_virtual_dataset(name, layout)\n\
         ours = h5py.enum_dtype({'A': 0, 'B': 1}, 'i1')\n\
         with h5py.File(f'{folder}/a.h5', 'w', libver='latest') as file:\n\
         \x20   file.create_dataset('s', data=np.array([0, 1, 1, 7], 'i1'), dtype=ours)\n\
         \x20   virtual(file, 'same', 's', h5py.enum_dtype({'B': 1, 'A': 0}, 'i1'))\n\
         \x20   virtual(file, 'swapped', 's', h5py.enum_dtype({'A': 1, 'B': 0, 'C': 5}, '>i2'))\n\
         \x20   virtual(file, 'narrow', 's', h5py.enum_dtype({'A': 1, 'B': 0}, 'i1'))\n\
         \x20   virtual(file, 'lacking', 's', h5py.enum_dtype({'A': 1}, '<i2'))\n\
         with h5py.File(f'{folder}/a.h5') as file:\n\
         \x20   read, swapped = np.empty(4, '>i2'), file['swapped'].id\n\
         \x20   swapped.read(h5s.ALL, h5s.ALL, read, mtype=swapped.get_type())\n\
         \x20   assert read.tolist() == [1, 0, 0, -1], read",
    );
    let opened = written.open();
    assert_eq!(values(&opened, "same").unwrap(), [0, 1, 1, 7]);
    // What has no name there is all ones, as libhdf5 converts it.
    let wanted: Vec<u8> = [1, 0, 0, -1i16].iter().flat_map(|n| n.to_le_bytes()).collect();
    assert_eq!(values(&opened, "swapped").unwrap(), wanted);
    assert_eq!(values(&opened, "narrow").unwrap(), [1, 0, 0, 255]);
    let error = values(&opened, "lacking").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("'B'"), "{error}");
}

/// Whatever had reached the disk was read, though libhdf5 refuses a file whose writer did not close it.
#[test]
fn a_file_that_its_writer_left_open_is_refused_with_the_remedy() {
    let written = Written::by(
        "file = h5py.File(f'{folder}/a.h5', 'w', libver='latest')\n\
         file['x'] = np.arange(5)\n\
         file.flush()\n\
         import shutil; shutil.copy(f'{folder}/a.h5', f'{folder}/copy.h5')\n\
         try: h5py.File(f'{folder}/copy.h5', 'r').close()\n\
         except OSError as error: assert 'h5clear' in str(error)\n\
         else: raise AssertionError('h5py reads it')\n\
         os._exit(0)",
    );
    let error = written.refusal();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
    assert!(
        error.to_string().contains("open for writing") && error.to_string().contains("h5clear -s"),
        "{error}"
    );
}

/// A file that a SWMR writer has open was read whatever became of it meanwhile.
#[test]
fn a_swmr_file_is_read_as_of_its_opening_and_its_change_names_swmr() {
    let written = Written::by(
        "file = h5py.File(f'{folder}/a.h5', 'w', libver='latest')\n\
         data = file.create_dataset('x', (3,), 'i1', maxshape=(None,), chunks=(2,))\n\
         data[:] = [1, 2, 3]\n\
         file.swmr_mode = True\n\
         data.resize((4,)); data[3] = 4; data.flush()\n\
         data.resize((6,))\n\
         import shutil; shutil.copy(f'{folder}/a.h5', f'{folder}/copy.h5')\n\
         with h5py.File(f'{folder}/copy.h5', 'r', swmr=True) as copy: assert copy['x'][:].tolist() == [1, 2, 3, 4]\n\
         os._exit(0)",
    );
    let opened = written.open();
    assert!(opened.container().swmr);
    assert_eq!(values(&opened, "x").unwrap(), [1, 2, 3, 4]);
    let described = written.open();
    let mut file = std::fs::OpenOptions::new().append(true).open(written.folder.path().join("a.h5")).unwrap();
    std::io::Write::write_all(&mut file, b"more").unwrap();
    for opened in [&opened, &described] {
        let error = values(opened, "x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unavailable, "{error}");
        assert!(error.to_string().contains("changed") && error.to_string().contains("SWMR"), "{error}");
    }
    assert_eq!(values(&written.open(), "x").unwrap(), [1, 2, 3, 4]);
}

/// Only superblocks of version 3 keep such flags: libhdf5 ignores them in others.
#[test]
fn an_old_file_that_its_writer_left_open_is_read_as_it_lies() {
    for libver in ["'earliest'", "('v108', 'v108')"] {
        let written = Written::by(&format!(
            "file = h5py.File(f'{{folder}}/a.h5', 'w', libver={libver})\n\
             file['x'] = np.arange(5, dtype='i1')\n\
             file.flush()\n\
             os._exit(0)"
        ));
        assert_eq!(values(&written.open(), "x").unwrap(), [0, 1, 2, 3, 4], "{libver}");
    }
}

/// Old and absent metadata was believed: what the cache image holds is not written to its own place.
#[test]
fn a_file_with_a_metadata_cache_image_is_refused_until_the_image_is_gone() {
    let script = "import ctypes, glob\n\
         beside = os.path.join(os.path.dirname(os.path.dirname(h5py.__file__)), 'h5py.libs')\n\
         library = ctypes.CDLL(sorted(glob.glob(os.path.join(beside, 'libhdf5-*.so*')))[0])\n\
         class Config(ctypes.Structure):\n\
         \x20   _fields_ = [('version', ctypes.c_int32), ('generate', ctypes.c_bool), ('resize', ctypes.c_bool),\n\
         \x20               ('ageout', ctypes.c_int32)]\n\
         access = h5p.create(h5p.FILE_ACCESS)\n\
         access.set_libver_bounds(h5f.LIBVER_LATEST, h5f.LIBVER_LATEST)\n\
         config = Config(1, True, False, -1)\n\
         assert library.H5Pset_mdc_image_config(ctypes.c_int64(access.id), ctypes.byref(config)) >= 0\n\
         path = f'{folder}/a.h5'\n\
         with h5py.File(h5f.create(path.encode(), h5f.ACC_TRUNC, fapl=access)) as file: file['x'] = np.arange(3, dtype='i1')\n";
    let error = Written::by(script).refusal();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.to_string().contains("cache image") && error.to_string().contains("h5repack"), "{error}");
    let rewritten = Written::by(&format!("{script}\nwith h5py.File(path, 'r+') as file: file['y'] = 1"));
    assert_eq!(values(&rewritten.open(), "x").unwrap(), [0, 1, 2]);
}

/// A damaged heap of the root's attributes, or one link that leads nowhere, refused the whole file.
#[test]
fn an_attribute_or_a_link_that_cannot_be_made_out_refuses_itself_and_not_the_file() {
    let written = Written::by(
        "path = f'{folder}/a.h5'\n\
         with h5py.File(path, 'w', libver='latest') as file:\n\
         \x20   file['x'] = np.arange(3, dtype='i1')\n\
         \x20   for n in range(20): file.attrs[f'attribute {n}'] = np.bytes_(f'value {n:02}')\n\
         whole = bytearray(open(path, 'rb').read())\n\
         whole[whole.index(b'value 07')] ^= 1\n\
         open(path, 'wb').write(whole)",
    );
    let opened = written.open();
    assert_eq!(values(&opened, "x").unwrap(), [0, 1, 2]);
    let attributes = &opened.container().groups[0].attributes;
    assert!(attributes.iter().any(|attribute| attribute.value.is_err()), "{attributes:?}");
    let written = Written::by(
        "path = f'{folder}/a.h5'\n\
         with h5py.File(path, 'w', libver='earliest') as file:\n\
         \x20   file['x'] = np.arange(3, dtype='i1')\n\
         \x20   file['y'] = np.arange(3, dtype='i1')\n\
         \x20   address = h5py.h5o.get_info(file['y'].id).addr.to_bytes(8, 'little')\n\
         whole = bytearray(open(path, 'rb').read())\n\
         at = whole.index(address, whole.index(b'SNOD'))\n\
         whole[at:at + 8] = b'\\xff' * 8\n\
         open(path, 'wb').write(whole)",
    );
    let opened = written.open();
    assert_eq!(values(&opened, "x").unwrap(), [0, 1, 2]);
    let error = values(&opened, "y").unwrap_err();
    assert!(error.kind() == ErrorKind::Corrupt && error.to_string().contains("undefined address"), "{error}");
}

/// An object of Silo whose members cannot be made out was left out without a word.
#[test]
fn a_silo_object_that_cannot_be_made_out_is_listed_as_refused() {
    let written = Written::by(
        "with h5py.File(f'{folder}/a.h5', 'w') as file:\n\
         \x20   file['.silo/#000001'] = np.arange(3, dtype='i1')\n\
         \x20   file['mesh'] = np.dtype('i4')\n\
         \x20   file['mesh'].attrs['silo'] = 5",
    );
    let opened = written.open();
    assert_eq!(opened.container().format, "silo");
    let error = opened.variable("mesh").unwrap_err();
    assert!(error.to_string().contains("no compound"), "{error}");
}
