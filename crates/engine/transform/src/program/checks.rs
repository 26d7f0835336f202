//! What is refused before the first batch: axes that are not there, numbers that make no sense, orders that mean nothing.

use forebay_container::Number;
use forebay_process::{Error, Result};

use crate::{field_form::FieldForm, program::step::EndType, spec::PictureCrop};

/// The longest side of a picture that comes out.
const LONGEST_SIDE: u64 = 1 << 15;

/// What the next step is checked against.
pub(crate) struct StepChecks<'a> {
    /// The field as the steps before leave it.
    pub(crate) form: &'a FieldForm,
    pub(crate) end: EndType,
    pub(crate) has_values: bool,
}

/// Axis `axis` of `ndim`, of which negative ones count from the end.
pub(crate) fn axis_of(axis: i64, ndim: usize) -> Result<usize> {
    let count = i64::try_from(ndim).unwrap_or(i64::MAX);
    let place = if axis < 0 { axis.saturating_add(count) } else { axis };
    usize::try_from(place).ok().filter(|place| *place < ndim).ok_or_else(|| {
        let error = Error::invalid(format!("axis {axis} of samples that have {ndim}"));
        error.hint("axes are those of one sample: axis 0 of a sample is axis 1 of a batch")
    })
}

impl StepChecks<'_> {
    /// Height and width of pictures that files are decoded to, by step `number`.
    pub(crate) fn picture(
        &self,
        number: usize,
        sides: [u64; 2],
        crop: &PictureCrop,
    ) -> Result<(usize, usize)> {
        let is_file = self.form.sample_shape == [None] && self.form.number() == Some(Number::U8);
        if number > 0 || !is_file {
            let error = Error::invalid("DecodeImage takes the bytes of JPEG or PNG files, as the first step");
            return Err(error.hint("open 'encoded' with samples=forebay.Ragged(offsets=\"encoded@offsets\")"));
        }
        let [height, width] = sides.map(|side| {
            let side = Some(side).filter(|side| (1..=LONGEST_SIDE).contains(side));
            side.and_then(|side| usize::try_from(side).ok())
        });
        let (Some(height), Some(width)) = (height, width) else {
            return Err(Error::invalid(format!("DecodeImage: pictures of {} x {}", sides[0], sides[1])));
        };
        match crop {
            PictureCrop::Center { shorter: Some(shorter) } if *shorter < height.max(width) => {
                let what = format!("DecodeImage: {height} x {width} of a shorter side of {shorter}");
                Err(Error::invalid(what).hint("give shorter= at least as much"))
            }
            PictureCrop::Center { shorter: Some(shorter) } if *shorter as u64 > LONGEST_SIDE => {
                Err(Error::invalid(format!("DecodeImage: a shorter side of {shorter}")))
            }
            PictureCrop::Random { scale: [least, most], .. }
                if !(0.0 < *least && least <= most && *most <= 1.0) =>
            {
                Err(Error::invalid(format!("DecodeImage: scale=({least}, {most}) is no part of an area")))
            }
            PictureCrop::Random { ratio: [least, most], .. }
                if !(0.0 < *least && least <= most && most.is_finite()) =>
            {
                Err(Error::invalid(format!("DecodeImage: ratio=({least}, {most})")))
            }
            _ => Ok((height, width)),
        }
    }

    /// The axis of a step called `name` that moves elements along it.
    pub(crate) fn moved_axis(&self, axis: i64, name: &str) -> Result<usize> {
        if self.form.is_ragged() {
            let error = Error::invalid(format!("{name}: samples of this field differ in length"));
            return Err(error.hint("transform them in Python, by map="));
        }
        axis_of(axis, self.form.sample_shape.len())
    }

    /// The axes of a crop of `sizes`; the last ones where none are named.
    pub(crate) fn crop_axes(&self, sizes: &[u64], axes: Option<&[i64]>) -> Result<Vec<usize>> {
        let ndim = self.form.sample_shape.len();
        let counted: Vec<i64> = match axes {
            Some(axes) => axes.to_vec(),
            None => (1..=sizes.len()).rev().map(|from_end| -i64::try_from(from_end).unwrap_or(0)).collect(),
        };
        if sizes.is_empty() || counted.len() != sizes.len() {
            let what = format!("a crop of {} lengths along {} axes", sizes.len(), counted.len());
            return Err(Error::invalid(what));
        }
        if axes.is_none() && sizes.len() > ndim {
            return Err(Error::invalid(format!(
                "a crop of {} axes of samples that have {ndim}",
                sizes.len()
            )));
        }
        let found =
            counted.iter().map(|axis| self.moved_axis(*axis, "a crop")).collect::<Result<Vec<_>>>()?;
        let is_twice = |(at, axis): (usize, &usize)| found[..at].contains(axis);
        if found.iter().enumerate().any(is_twice) {
            return Err(Error::invalid("a crop names an axis twice"));
        }
        Ok(found)
    }

    /// Refuses a step called `name` that computes with values that are no numbers, or after the last step there can be.
    pub(crate) fn computes(&self, name: &str) -> Result<Number> {
        match self.end {
            EndType::Kept => {}
            EndType::Number(_) => {
                let error = Error::invalid(format!("{name} after Cast"));
                return Err(error.hint("values are computed in float32 and cast at the end: put Cast last"));
            }
            EndType::OneHot { .. } => return Err(Error::invalid(format!("{name} after OneHot"))),
        }
        self.form.number().ok_or_else(|| {
            Error::invalid(format!(
                "{name}: values of type {} are no numbers to compute with",
                self.form.dtype
            ))
        })
    }

    /// Means, standard deviations and the axis of channels, where there are several.
    pub(crate) fn normalize(
        &self,
        mean: &[f64],
        std: &[f64],
        axis: Option<i64>,
    ) -> Result<(Vec<f32>, Vec<f32>, Option<usize>)> {
        self.computes("Normalize")?;
        if mean.is_empty() || mean.len() != std.len() {
            return Err(Error::invalid(format!("Normalize: {} means and {} std", mean.len(), std.len())));
        }
        let (mean, std) = (singles(mean), singles(std));
        if let Some(bad) = std.iter().find(|std| !std.is_finite() || **std == 0.0) {
            let error = Error::invalid(format!("Normalize: a std of {bad}"));
            return Err(error.hint("a field, or a channel, that is the same everywhere cannot be normalised"));
        }
        if let Some(bad) = mean.iter().find(|mean| !mean.is_finite()) {
            return Err(Error::invalid(format!("Normalize: a mean of {bad}")));
        }
        if mean.len() == 1 {
            return Ok((mean, std, None));
        }
        let Some(axis) = axis else {
            let error = Error::invalid(format!("Normalize: {} means, and no axis", mean.len()));
            return Err(error
                .hint("say along which axis of a sample: axis=0 where channels come first, axis=-1 last"));
        };
        let axis = axis_of(axis, self.form.sample_shape.len())?;
        let Some(len) = self.form.sample_shape[axis] else {
            return Err(Error::invalid(format!("Normalize: samples differ in length along axis {axis}")));
        };
        if len != mean.len() as u64 {
            return Err(Error::invalid(format!(
                "Normalize: {} means for axis {axis} of length {len}",
                mean.len()
            )));
        }
        Ok((mean, std, Some(axis)))
    }

    /// The bounds of a clip.
    pub(crate) fn clip(&self, low: Option<f64>, high: Option<f64>) -> Result<(f32, f32)> {
        self.computes("Clip")?;
        let (low, high) = (low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY));
        if low.is_nan() || high.is_nan() || low > high {
            return Err(Error::invalid(format!("Clip: nothing lies between {low} and {high}")));
        }
        Ok((single(low), single(high)))
    }

    /// The number of classes of one-hot rows.
    pub(crate) fn one_hot(&self, classes: u64, is_stacked: bool) -> Result<usize> {
        let number = self.computes("OneHot")?;
        if is_stacked || self.has_values || !number.is_integer() {
            let error = Error::invalid(format!("OneHot of values of type {}", self.form.dtype));
            return Err(error.hint("it takes whole numbers as they are read, of one field"));
        }
        match usize::try_from(classes) {
            Ok(classes @ 1..=0xff_ffff) => Ok(classes),
            _ => Err(Error::invalid(format!("OneHot: {classes} classes"))),
        }
    }
}

fn singles(values: &[f64]) -> Vec<f32> {
    values.iter().copied().map(single).collect()
}

#[expect(clippy::cast_possible_truncation, reason = "rounded once, as the formula says")]
fn single(value: f64) -> f32 {
    value as f32
}
