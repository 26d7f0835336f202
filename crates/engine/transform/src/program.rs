//! What is done to one field, checked against what is known of it before the first batch.

pub(crate) mod checks;
pub(crate) mod step;

use forebay_container::{Dtype, Number, cf::ValueKind};
use forebay_process::{Error, ErrorKind, Result};

use crate::{
    field_form::FieldForm,
    picture::PictureStep,
    program::{
        checks::{StepChecks, axis_of},
        step::{AxisMove, EndType, MoveKind, ValueOp},
    },
    spec::{TransformOp, TransformedField},
};

/// What is done to one field.
#[derive(Debug)]
pub(crate) struct FieldProgram {
    /// The fields it is made of, by their place in a batch.
    pub(crate) sources: Vec<usize>,
    /// Where the sources are stacked, in the sample that is put together.
    pub(crate) stack_axis: Option<usize>,
    /// What is made of each file, where samples are pictures as files have them.
    pub(crate) picture: Option<PictureStep>,
    /// What is done along axes, in order.
    pub(crate) moves: Vec<AxisMove>,
    /// What is done to values, in order.
    pub(crate) values: Vec<ValueOp>,
    /// What they end as.
    pub(crate) end: EndType,
    /// The field that comes out.
    pub(crate) form: FieldForm,
}

impl FieldProgram {
    /// What `spec` says of fields of which `forms` are known.
    pub(crate) fn new(spec: &TransformedField, forms: &[FieldForm]) -> Result<Self> {
        Self::build(spec, forms).map_err(|error| error.at(format!("transforms of '{}'", spec.name)))
    }

    fn build(spec: &TransformedField, forms: &[FieldForm]) -> Result<Self> {
        let sources = spec.from.iter().map(|name| place_of(name, forms)).collect::<Result<Vec<_>>>()?;
        let Some(first) = sources.first().map(|at| &forms[*at]) else {
            return Err(Error::invalid("no field to make it from"));
        };
        let is_stacked = sources.len() > 1 || spec.stack_axis.is_some();
        let mut shape = first.sample_shape.clone();
        let mut stack_axis = None;
        if is_stacked {
            let stacked: Vec<&FieldForm> = sources.iter().map(|at| &forms[*at]).collect();
            check_stack(&stacked)?;
            let axis = axis_of(spec.stack_axis.unwrap_or(0), shape.len() + 1)?;
            shape.insert(axis, Some(sources.len() as u64));
            stack_axis = Some(axis);
        }
        let form = FieldForm { name: spec.name.clone(), sample_shape: shape, ..first.clone() };
        let mut program = Self {
            sources,
            stack_axis,
            picture: None,
            moves: Vec::new(),
            values: Vec::new(),
            end: EndType::Kept,
            form,
        };
        for (number, op) in spec.ops.iter().enumerate() {
            program.add(number, op)?;
        }
        program.check_channels()?;
        program.finish(forms)
    }

    fn add(&mut self, number: usize, op: &TransformOp) -> Result<()> {
        let checks = StepChecks { form: &self.form, end: self.end, has_values: !self.values.is_empty() };
        match op {
            TransformOp::DecodeImage { height, width, crop, channels, key } => {
                let (height, width) = checks.picture(number, [*height, *width], crop)?;
                let step = PictureStep { height, width, crop: crop.clone(), channels: *channels, key: *key };
                self.form.sample_shape = step.shape().map(|len| Some(len as u64)).to_vec();
                self.picture = Some(step);
            }
            TransformOp::Crop { sizes, axes, place, key } => {
                let axes = checks.crop_axes(sizes, axes.as_deref())?;
                for (axis, size) in axes.into_iter().zip(sizes) {
                    let size = checks_crop(&self.form, axis, *size)?;
                    self.push(axis, *key, MoveKind::Crop { size, place: *place });
                    self.form.sample_shape[axis] = Some(size as u64);
                }
            }
            TransformOp::Flip { axis, probability, key } => {
                let axis = checks.moved_axis(*axis, "RandomFlip")?;
                if !(0.0..=1.0).contains(probability) {
                    return Err(Error::invalid(format!("RandomFlip: p={probability} is no probability")));
                }
                self.push(axis, *key, MoveKind::Flip { probability: *probability });
            }
            TransformOp::Roll { axis, key } => {
                let axis = checks.moved_axis(*axis, "RandomRoll")?;
                self.push(axis, *key, MoveKind::Roll);
            }
            TransformOp::Normalize { mean, std, axis } => {
                let axis = if axis.is_none() && mean.len().max(std.len()) > 1 {
                    self.stack_axis.and_then(|axis| i64::try_from(axis).ok())
                } else {
                    *axis
                };
                let (mean, std, axis) = checks.normalize(mean, std, axis)?;
                self.values.push(ValueOp::Normalize { mean, std, axis });
            }
            TransformOp::Log { add } => {
                checks.computes("Log")?;
                self.values.push(ValueOp::Log { add: *add });
            }
            TransformOp::Clip { low, high } => {
                let (low, high) = checks.clip(*low, *high)?;
                self.values.push(ValueOp::Clip { low, high });
            }
            TransformOp::OneHot { classes, to } => {
                let classes = checks.one_hot(*classes, self.stack_axis.is_some())?;
                self.end = EndType::OneHot { classes, to: *to };
            }
            TransformOp::Cast { to } => {
                checks.computes("Cast")?;
                self.end = EndType::Number(*to);
            }
        }
        Ok(())
    }

    fn push(&mut self, axis: usize, key: u32, kind: MoveKind) {
        let from_end = self.form.sample_shape.len() - axis;
        self.moves.push(AxisMove { axis, from_end, key, kind });
    }

    /// Channels stay where they are, or they would meet the numbers of others.
    fn check_channels(&self) -> Result<()> {
        for value in &self.values {
            let ValueOp::Normalize { axis: Some(axis), .. } = value else { continue };
            if self.moves.iter().any(|moved| moved.axis == *axis) {
                let what = format!(
                    "Normalize has numbers for each index of axis {axis}, along which samples are cropped, \
                     flipped or rolled"
                );
                return Err(Error::invalid(what)
                    .hint("give one mean and std for all of it, or leave that axis alone"));
            }
        }
        let moves_stack = |moved: &AxisMove| Some(moved.axis) == self.stack_axis;
        if self.moves.iter().any(moves_stack) {
            return Err(Error::invalid(
                "samples are cropped, flipped or rolled along the axis they are stacked by",
            ));
        }
        Ok(())
    }

    /// Decides the type, once all is known.
    fn finish(mut self, forms: &[FieldForm]) -> Result<Self> {
        if !self.values.is_empty() && self.end == EndType::Kept {
            self.end = EndType::Number(Number::F32);
        }
        match self.end {
            EndType::Kept => {
                let types = self.sources.iter().map(|at| (&forms[*at].dtype, forms[*at].kind));
                if let Some((dtype, _)) = types.clone().find(|one| *one != (&self.form.dtype, self.form.kind))
                {
                    let what = format!("stacks {} and {dtype}", self.form.dtype);
                    return Err(Error::invalid(what).hint("add a Cast to the type they shall have"));
                }
            }
            EndType::Number(number) => self.form.become_number(number),
            EndType::OneHot { classes, to } => {
                self.form.become_number(to);
                self.form.sample_shape.push(Some(classes as u64));
            }
        }
        Ok(self)
    }

    /// True when elements stay where they are, so that samples need not be looked at one by one.
    pub(crate) fn is_in_place(&self) -> bool {
        self.moves.is_empty() && self.stack_axis.is_none() && self.picture.is_none()
    }

    pub(crate) fn is_one_hot(&self) -> bool {
        matches!(self.end, EndType::OneHot { .. })
    }

    /// Bytes of a sample that comes out; where samples differ in length, of one whose length is 1.
    pub(crate) fn mean_len(&self) -> u64 {
        let lens = self.form.sample_shape.iter().map(|len| len.unwrap_or(1));
        lens.fold(self.form.dtype.native_len() as u64, u64::saturating_mul)
    }

    /// Bytes of one element that comes out; of one-hot rows, of the row.
    pub(crate) fn element_len(&self) -> usize {
        match self.end {
            EndType::OneHot { classes, to } => classes.saturating_mul(to.size()),
            EndType::Kept | EndType::Number(_) => self.form.dtype.native_len(),
        }
    }
}

impl FieldForm {
    fn become_number(&mut self, number: Number) {
        self.dtype = Dtype::native(number);
        self.kind = ValueKind::Number;
    }
}

/// Where the field `name` stands in a batch.
pub(crate) fn place_of(name: &str, forms: &[FieldForm]) -> Result<usize> {
    forms.iter().position(|form| form.name == name).ok_or_else(|| {
        let known: Vec<&str> = forms.iter().map(|form| form.name.as_str()).collect();
        Error::new(ErrorKind::Invalid, format!("there is no field '{name}'"))
            .hint(format!("the fields are: {}", known.join(", ")))
    })
}

fn checks_crop(form: &FieldForm, axis: usize, size: u64) -> Result<usize> {
    let len = form.sample_shape[axis].unwrap_or(0);
    if size == 0 || size > len {
        let what = format!("a crop of {size} along axis {axis}, of which samples have {len}");
        return Err(Error::invalid(what));
    }
    usize::try_from(size).map_err(|_| Error::invalid(format!("a crop of {size}")))
}

/// Refuses fields that cannot stand side by side.
fn check_stack(forms: &[&FieldForm]) -> Result<()> {
    for form in forms {
        let name = &form.name;
        if form.is_ragged() {
            let what = format!("'{name}' has samples of different lengths, which cannot be stacked");
            return Err(Error::invalid(what));
        }
        if form.sample_shape != forms[0].sample_shape {
            let shape = |form: &FieldForm| {
                form.sample_shape.iter().flatten().map(u64::to_string).collect::<Vec<_>>().join(" x ")
            };
            let what = format!(
                "'{}' has samples of {} and '{name}' of {}, which cannot be stacked",
                forms[0].name,
                shape(forms[0]),
                shape(form)
            );
            return Err(Error::invalid(what));
        }
    }
    Ok(())
}
