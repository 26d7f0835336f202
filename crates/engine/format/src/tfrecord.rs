//! TFRecord: records one after the other, each usually a `tf.train.Example`, read in place.
//!
//! ```text
//! length 8 │ its CRC 4 │ payload │ its CRC 4   ─► record places ─► feature places ─► one variable per feature
//!        framing, through a window                  framing           example             columns
//! ```
//!
//! The file is passed over once, when it is described. A window of it is held, and what is longer than the window is
//! jumped over: of large values only the first bytes are read, files of small records are read from end to end. Small
//! values are kept in the description, all others stay where they are.

mod columns;
mod example;
mod framing;
mod window;

use forebay_process::{Error, ErrorKind, Result};
use forebay_source::ByteRange;

use crate::{Format, Found};
use columns::Columns;
use example::{Example, ParsedExample};
use forebay_container::{Container, Refused};
use framing::{is_record_start, next_record};
use window::FileWindow;

/// The TFRecord format of TensorFlow.
#[derive(Clone, Copy, Debug, Default)]
pub struct TfRecord {
    checks_payloads: bool,
}

/// When this is set, payloads are read whole and held against their checksums.
const CHECK: &str = "FOREBAY_TFRECORD_CHECK";

impl TfRecord {
    /// The format that holds every payload against its checksum when a file is described, and so reads all of it.
    pub fn checking() -> Self {
        Self { checks_payloads: true }
    }

    fn checks_payloads(self) -> bool {
        self.checks_payloads || std::env::var_os(CHECK).is_some_and(|value| !value.is_empty())
    }
}

impl Format for TfRecord {
    fn name(&self) -> &str {
        "tfrecord"
    }

    fn probe(&self, found: &Found<'_>) -> Result<bool> {
        let Some(file) = &found.file else { return Ok(false) };
        let is_named_so = found.at.as_str().to_ascii_lowercase().contains("tfrecord");
        Ok(is_record_start(&found.head, file.id().len) || (is_compressed(&found.head) && is_named_so))
    }

    fn describe(&self, found: &Found<'_>) -> Result<Container> {
        let file = found.need_file()?;
        if is_compressed(&found.head) && !is_record_start(&found.head, file.id().len) {
            let error = Error::new(ErrorKind::Unsupported, "a compressed TFRecord file has no places in it");
            return Err(error.hint("decompress it once, with gunzip or zlib-flate, and read that"));
        }
        let mut window = FileWindow::over(&**file);
        let mut columns = Columns::default();
        let mut at = 0;
        while at < file.id().len {
            let number = columns.record_count();
            let record = next_record(&mut window, at, self.checks_payloads())
                .map_err(|error| error.at(format!("record {number} at {at:#x}")))?;
            columns.start_record(record.payload);
            if columns.has_features() {
                read_features(&mut window, record.payload, &mut columns)
                    .map_err(|error| error.at(format!("record {number} at {at:#x}")))?;
            }
            at = record.end;
        }
        columns.into_container(self.name(), file.id().clone())
    }
}

/// Reads the features of one record; the first that is no Example ends the search for features.
fn read_features(window: &mut FileWindow<'_>, payload: ByteRange, columns: &mut Columns) -> Result<()> {
    let why = match (Example { window, columns }).read(payload)? {
        ParsedExample::Example => return Ok(()),
        ParsedExample::Sequence => {
            "records are tf.train.SequenceExample, of which only whole records are read (`record`)".to_owned()
        }
        ParsedExample::Other { .. } if columns.record_count() == 1 => {
            columns.give_up(None);
            return Ok(());
        }
        ParsedExample::Other { at } => {
            let number = columns.record_count() - 1;
            format!("record {number} is no tf.train.Example as those before it are (byte {at:#x})")
        }
    };
    columns.give_up(Some(Refused { name: "features".into(), why, corrupt: false }));
    Ok(())
}

/// True for the first bytes of gzip and zlib streams.
fn is_compressed(head: &[u8]) -> bool {
    matches!(head, [0x1f, 0x8b, 8, ..] | [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..])
}
