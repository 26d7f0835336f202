//! Statistics of fields: what is asked, what is known of one batch, and what comes out of all.

pub(crate) mod measured;
mod moments;
mod value_histogram;

use forebay_batch::FieldArray;
use forebay_container::{Number, cast::Cast};
use forebay_process::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use crate::{
    field_form::FieldForm,
    program::{checks::axis_of, place_of},
    statistics::{
        moments::{Moments, PairwiseMoments},
        value_histogram::ValueHistogram,
    },
};

/// Which statistics are wanted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StatisticsSpec {
    /// The fields, each with the axis of a sample whose indexes are measured one by one, if any.
    pub fields: Vec<(String, Option<i64>)>,
    /// Which quantiles, as parts of 1.
    pub quantiles: Vec<f64>,
}

/// Statistics of one field.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FieldStatistics {
    /// The field.
    pub name: String,
    /// The axis of a sample whose indexes are measured one by one.
    pub axis: Option<usize>,
    /// One for all values, or one for each index of the axis.
    pub channels: Vec<ChannelStatistics>,
}

/// Statistics of the values of a field, or of those at one index of an axis.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelStatistics {
    /// Values that are not NaN.
    pub count: u64,
    /// Values that are.
    pub missing: u64,
    /// Their mean.
    pub mean: f64,
    /// Their standard deviation, of all of them and not of a sample of more.
    pub std: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
    /// The quantiles that were asked for.
    pub quantiles: Vec<f64>,
}

/// A field that is measured.
#[derive(Clone, Debug)]
pub(crate) struct MeasuredField {
    /// Its place in a batch.
    place: usize,
    name: String,
    axis: Option<usize>,
    is_ragged: bool,
}

impl MeasuredField {
    /// The fields that `spec` names, of `forms`.
    pub(crate) fn all(spec: &StatisticsSpec, forms: &[FieldForm]) -> Result<Vec<Self>> {
        if let Some(bad) = spec.quantiles.iter().find(|part| !(0.0..=1.0).contains(*part)) {
            return Err(Error::invalid(format!("a quantile of {bad}, which lies between 0 and 1")));
        }
        let field = |(name, axis): &(String, Option<i64>)| {
            let place = place_of(name, forms)?;
            let form = &forms[place];
            let at = |error: Error| error.at(format!("statistics of '{name}'"));
            if form.number().is_none() {
                return Err(at(Error::invalid(format!("values of type {} are no numbers", form.dtype))));
            }
            let axis = axis.map(|axis| axis_of(axis, form.sample_shape.len())).transpose().map_err(at)?;
            if axis.is_some_and(|axis| form.sample_shape[axis].is_none()) {
                return Err(at(Error::invalid("samples differ in length along this axis")));
            }
            Ok(Self { place, name: name.clone(), axis, is_ragged: form.is_ragged() })
        };
        spec.fields.iter().map(field).collect()
    }

    /// What is known of the field in a batch, channel by channel; slots that `is_padding` names do not count.
    pub(crate) fn measure(&self, fields: &[FieldArray], is_padding: &[bool]) -> Result<Vec<ChannelMeasure>> {
        let lacks = || Error::new(ErrorKind::Bug, format!("a batch lacks the field '{}'", self.name));
        let field = fields.get(self.place).ok_or_else(lacks)?;
        let form = FieldForm {
            name: String::new(),
            dtype: field.dtype.clone(),
            kind: field.kind,
            sample_shape: Vec::new(),
        };
        let number = form.number().ok_or_else(lacks)?;
        let mut values = numbers(number, &field.bytes);
        let slot_len = values.len().checked_div(is_padding.len()).unwrap_or(0);
        let shape: Vec<usize> = field.shape.iter().map(|len| usize::try_from(*len).unwrap_or(0)).collect();
        if !self.is_ragged && slot_len > 0 {
            let mut slots = is_padding.iter();
            let mut kept = Vec::with_capacity(values.len());
            for slot in values.chunks_exact(slot_len) {
                if !slots.next().copied().unwrap_or(false) {
                    kept.extend_from_slice(slot);
                }
            }
            values = kept;
        }
        let Some(axis) = self.axis else { return Ok(vec![ChannelMeasure::of(values.iter().copied())]) };
        // Of fields that are not joined, the first axis of a batch counts samples.
        let axis = axis + usize::from(!self.is_ragged);
        let (count, stride) = (shape[axis], shape[axis + 1..].iter().product::<usize>());
        let channel = |channel: usize| {
            let runs = values.chunks_exact((stride * count).max(1));
            ChannelMeasure::of(runs.flat_map(move |run| run[channel * stride..][..stride].iter().copied()))
        };
        Ok((0..count).map(channel).collect())
    }
}

/// `bytes` as 64-bit floats.
fn numbers(number: Number, bytes: &[u8]) -> Vec<f64> {
    let mut wide = vec![0u8; bytes.len() / number.size() * 8];
    Cast { from: number, to: Number::F64, scale: None }.run(bytes, &mut wide);
    wide.as_chunks::<8>().0.iter().map(|bytes| f64::from_ne_bytes(*bytes)).collect()
}

/// What is known of the values of one channel in one batch.
#[derive(Clone, Debug, Default)]
pub(crate) struct ChannelMeasure {
    moments: Moments,
    histogram: ValueHistogram,
}

impl ChannelMeasure {
    #[expect(clippy::cast_possible_truncation, reason = "a bucket is wider than the rounding")]
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let mut histogram = ValueHistogram::default();
        values.clone().for_each(|value| histogram.add(value as f32));
        Self { moments: Moments::of(values), histogram }
    }
}

/// What is known of all batches so far, merged in their order.
#[derive(Debug)]
pub(crate) struct StatisticsTotal {
    fields: Vec<MeasuredField>,
    channels: Vec<Vec<(PairwiseMoments, ValueHistogram)>>,
}

impl StatisticsTotal {
    pub(crate) fn new(fields: Vec<MeasuredField>) -> Self {
        let channels = fields.iter().map(|_| Vec::new()).collect();
        Self { fields, channels }
    }

    /// Adds the next batch.
    pub(crate) fn add(&mut self, batch: Vec<Vec<ChannelMeasure>>) {
        for (total, field) in self.channels.iter_mut().zip(batch) {
            total.resize_with(field.len().max(total.len()), Default::default);
            for ((moments, histogram), channel) in total.iter_mut().zip(field) {
                moments.push(channel.moments);
                histogram.merge(&channel.histogram);
            }
        }
    }

    /// What comes out, with `quantiles`.
    pub(crate) fn statistics(&self, quantiles: &[f64]) -> Vec<FieldStatistics> {
        let channel = |(moments, histogram): &(PairwiseMoments, ValueHistogram)| {
            let moments = moments.total();
            let is_empty = moments.count == 0;
            let known = |value: f64| if is_empty { f64::NAN } else { value };
            let within = |value: f64| if is_empty { f64::NAN } else { value.clamp(moments.min, moments.max) };
            ChannelStatistics {
                count: moments.count,
                missing: moments.missing,
                mean: known(moments.mean),
                std: moments.std(),
                min: known(moments.min),
                max: known(moments.max),
                quantiles: quantiles.iter().map(|part| within(histogram.quantile(*part))).collect(),
            }
        };
        let field = |(field, channels): (&MeasuredField, &Vec<_>)| FieldStatistics {
            name: field.name.clone(),
            axis: field.axis,
            channels: channels.iter().map(channel).collect(),
        };
        self.fields.iter().zip(&self.channels).map(field).collect()
    }
}
