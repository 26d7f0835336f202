//! What is done to the fields of a batch: plain data, said by the user.

use forebay_container::Number;
use serde::{Deserialize, Serialize};

/// What is done to the fields of batches.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TransformSpec {
    /// The fields that change, or are put together from several.
    pub fields: Vec<TransformedField>,
    /// True when batches have these fields alone, in this order; others otherwise stay as they are and where they are.
    pub is_selection: bool,
}

impl TransformSpec {
    /// True when nothing is done.
    pub fn is_none(&self) -> bool {
        self.fields.is_empty() && !self.is_selection
    }
}

/// One field of the batches that are given out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TransformedField {
    /// Its name.
    pub name: String,
    /// The field it comes from, or those that are stacked along a new axis.
    pub from: Vec<String>,
    /// Where the new axis stands in a sample, where several are stacked; negative ones count from the end.
    #[serde(default)]
    pub stack_axis: Option<i64>,
    /// What is done, in this order.
    #[serde(default)]
    pub ops: Vec<TransformOp>,
}

/// One thing that is done to a field. Axes are those of one sample; negative ones count from the end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case", deny_unknown_fields)]
pub enum TransformOp {
    /// A JPEG or PNG file, as bytes of any number, becomes a picture of one size: the first thing that is done.
    DecodeImage {
        /// Rows of pixels.
        height: u64,
        /// Pixels of a row.
        width: u64,
        /// What of the picture is taken.
        #[serde(default)]
        crop: PictureCrop,
        /// Where the axis of the three colours stands.
        #[serde(default)]
        channels: ChannelPlace,
        /// Those of the same key draw the same numbers.
        #[serde(default)]
        key: u32,
    },
    /// A box of these lengths, cut out at random or from the middle.
    Crop {
        /// How long it is along each axis.
        sizes: Vec<u64>,
        /// Which axes; by default the last ones.
        #[serde(default)]
        axes: Option<Vec<i64>>,
        /// Where it is cut.
        #[serde(default)]
        place: CropPlace,
        /// Crops of the same key draw the same numbers.
        #[serde(default)]
        key: u32,
    },
    /// The order along an axis turned round, with some probability.
    Flip {
        /// Which axis.
        axis: i64,
        /// How likely.
        probability: f64,
        /// Flips of the same key draw the same numbers.
        #[serde(default)]
        key: u32,
    },
    /// A cyclic shift along an axis, by any distance.
    Roll {
        /// Which axis.
        axis: i64,
        /// Rolls of the same key draw the same numbers.
        #[serde(default)]
        key: u32,
    },
    /// `(f32(x) - f32(mean)) / f32(std)`, each rounded once.
    Normalize {
        /// One number, or one for each index of `axis`.
        mean: Vec<f64>,
        /// As many.
        std: Vec<f64>,
        /// The axis of channels, where there are several numbers.
        #[serde(default)]
        axis: Option<i64>,
    },
    /// The natural logarithm of `x + add`, computed in 64 bits and rounded to 32.
    Log {
        /// What is added first.
        #[serde(default)]
        add: f64,
    },
    /// Values below `low` become `low`, those above `high` become `high`; NaN stays.
    Clip {
        /// The least.
        #[serde(default)]
        low: Option<f64>,
        /// The greatest.
        #[serde(default)]
        high: Option<f64>,
    },
    /// One more axis, the last, of `classes` numbers: a one at the value's place, and zeros.
    OneHot {
        /// How many.
        classes: u64,
        /// Their type.
        to: Number,
    },
    /// Another number type, as NumPy's `astype` gives it.
    Cast {
        /// Which.
        to: Number,
    },
}

/// What of a picture is taken before it is given its size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum PictureCrop {
    /// All of it, stretched to the size.
    #[default]
    None,
    /// Its middle, after its shorter side was given a length.
    Center {
        /// That length; by default as little as covers the size.
        #[serde(default)]
        shorter: Option<usize>,
    },
    /// A random box.
    Random {
        /// The least and the greatest part of the area.
        scale: [f64; 2],
        /// The least and the greatest ratio of width to height.
        ratio: [f64; 2],
    },
}

/// Where the axis of colours stands in a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChannelPlace {
    /// Behind rows and columns, as files have it.
    #[default]
    Last,
    /// Before them, as PyTorch's layers take it.
    First,
}

/// Where a box is cut out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CropPlace {
    /// Anywhere, by the sample's seed.
    #[default]
    Random,
    /// From the middle: as much is left out before as behind, or one less.
    Center,
}
