//! What a sample is: plain data, said by the user, kept in the state of a run.

use serde::{Deserialize, Serialize};

use crate::{Number, unpack::Unpack};

/// What a sample is made of: its fields, each with its own boundary. All fields have equally many samples.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SampleSpec {
    /// The fields, in the order they stand in a batch.
    pub fields: Vec<FieldSpec>,
}

/// One field of a sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FieldSpec {
    /// What it is called in a batch.
    pub name: String,
    /// The variable in the files.
    pub variable: String,
    /// Which list of files has it: fields from separate files are joined by sample.
    #[serde(default)]
    pub files: usize,
    /// Which part of the variable is one sample.
    #[serde(default)]
    pub samples: Boundary,
    /// What is done to the values on their way into a batch.
    #[serde(default)]
    pub convert: Convert,
    /// Makes whole rows of sparse ones: the variable then holds the values alone.
    #[serde(default)]
    pub dense: Option<Dense>,
    /// Which member of a compound it is, those of nested ones joined by dots; without one, all of the element.
    // Left out where it is not asked for: a set is known by this text, and older ones have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
}

impl FieldSpec {
    /// The variable `name`, one row of axis 0 a sample, as it is.
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            variable: name.clone(),
            name,
            files: 0,
            samples: Boundary::default(),
            convert: Convert::default(),
            dense: None,
            member: None,
        }
    }
}

/// Which part of a variable is one sample.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Boundary {
    /// So many rows of axis 0.
    Fixed {
        /// How many.
        rows: u64,
    },
    /// So many indexes of one axis, which a sample of one does not have any more.
    Along {
        /// Which axis.
        axis: AxisName,
        /// How many.
        rows: u64,
    },
    /// A different number of rows each.
    Ragged {
        /// Where each sample begins and ends.
        offsets: Offsets,
        /// Along which axis.
        #[serde(default)]
        axis: usize,
    },
    /// All of it: one sample for each file.
    Whole,
    /// Boxes of one size, at regular places.
    Windows {
        /// How long a box is, by axis; axes that are not named are taken whole.
        size: Vec<AxisLen>,
        /// From one box to the next, by axis; where it is not given, boxes touch.
        #[serde(default)]
        stride: Vec<AxisLen>,
        /// From one element in a box to the next, by axis; 1 where it is not given.
        #[serde(default)]
        step: Vec<AxisLen>,
    },
    /// Boxes along axis 0, which may go on from file to file, and what follows them.
    Series(SeriesSpec),
    /// All of the variable, the same for every sample.
    Constant,
    /// All of it in every group of a file: one sample for each group.
    Groups {
        /// Which groups, `*` and `?` standing for what is between two slashes.
        pattern: String,
    },
    /// One row of axis 0 in every group of a file: as many samples of each group as its members have rows.
    GroupRows {
        /// Which groups, as for `Groups`.
        pattern: String,
    },
    /// Boxes of one size, around listed places.
    Centres {
        /// The middle of each box, an index for each axis in `size`.
        at: Centres,
        /// How long a box is, by axis; axes that are not named are taken whole.
        size: Vec<AxisLen>,
    },
}

impl Boundary {
    /// Which groups of a file have samples, where groups have.
    pub fn groups(&self) -> Option<&str> {
        match self {
            Self::Groups { pattern } | Self::GroupRows { pattern } => Some(pattern),
            _ => None,
        }
    }
}

impl Default for Boundary {
    fn default() -> Self {
        Self::Fixed { rows: 1 }
    }
}

/// Boxes along axis 0, which may go on from file to file, and what follows them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SeriesSpec {
    /// How long a box is, by axis; axes that are not named are taken whole.
    pub size: Vec<AxisLen>,
    /// From one box to the next, by axis; where it is not given, boxes touch.
    #[serde(default)]
    pub stride: Vec<AxisLen>,
    /// From one element in a box to the next, by axis; 1 where it is not given.
    #[serde(default)]
    pub step: Vec<AxisLen>,
    /// The axis along which the rows of a file follow those of the file before it; without one, boxes end with their file.
    #[serde(default)]
    pub files: Option<FilesAxis>,
    /// What has to follow a box.
    #[serde(default)]
    pub targets: Option<Leads>,
    /// True for what follows a box, false for the box.
    #[serde(default)]
    pub is_target: bool,
}

/// An axis that goes on from file to file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesAxis {
    /// Which.
    pub axis: AxisName,
    /// True when boxes may lie across gaps, such as a file that is missing.
    #[serde(default)]
    pub crosses_gaps: bool,
}

/// Rows that follow a box.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Leads {
    /// Along which axis.
    pub axis: AxisName,
    /// How far each lies after the last row of the box, rising; 1 is the next.
    pub after: Vec<u64>,
}

/// A length along an axis.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AxisLen {
    /// Which axis.
    pub axis: AxisName,
    /// How long.
    pub len: u64,
}

/// An axis, by position or by the name the file gives it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum AxisName {
    /// By position.
    Index(usize),
    /// By name.
    Name(String),
}

/// Where samples of different lengths begin and end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Offsets {
    /// A variable of each file: n + 1 rising offsets, or n pairs of begin and end.
    Variable(String),
    /// Two variables of each file: begins and ends.
    BeginEnd(String, String),
    /// A variable of each file: the length of each sample.
    Lengths(String),
    /// Listed: file, begin, end.
    Listed(Vec<[u64; 3]>),
    /// Listed for the only file: begin, end.
    ListedInOneFile(Vec<[u64; 2]>),
}

/// The middles of boxes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Centres {
    /// A variable of each file: one row a box, one column an axis.
    Variable(String),
    /// Listed: the file, then one index an axis.
    Listed(Vec<Vec<u64>>),
    /// Listed for the only file: one index an axis.
    ListedInOneFile(Vec<Vec<u64>>),
}

/// What is done to the values of a field on their way into a batch.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Convert {
    /// The number type they become.
    #[serde(default)]
    pub to: Option<Number>,
    /// What they are multiplied by.
    #[serde(default)]
    pub scale: Option<f64>,
    /// What is then added.
    #[serde(default)]
    pub add: Option<f64>,
    /// The axes of one sample in the order they shall have in the batch.
    #[serde(default)]
    pub axes: Option<Vec<usize>>,
    /// How packed values and times are unpacked, before all else; by default they stay as they are stored.
    // Left out where it is not asked for: a set is known by this text, and older ones have none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unpack: Option<Unpack>,
}

impl Convert {
    /// True when values arrive as they were read.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// True when the numbers themselves change.
    pub fn changes_values(&self) -> bool {
        self.to.is_some() || self.scale.is_some() || self.add.is_some()
    }
}

/// Sparse rows: which columns their values stand in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Dense {
    /// The variable with the column of each value, beside the values.
    pub indices: String,
    /// How many columns a row has; by default what the file says of its matrix.
    #[serde(default)]
    pub columns: Option<u64>,
}
