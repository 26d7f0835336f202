//! Batches of another maker, transformed.

use std::{cell::OnceCell, sync::Arc};

use forebay_batch::{
    Arena, Backing, BatchMaker, BatchMemory, BatchRequest, FieldArray, LoaderStats, MadeFields, MakerThreads,
};
use forebay_plan::SetIdentity;
use forebay_process::{Error, ErrorKind, Grant, Result, ledger};

use crate::{
    field::{narrowed::Narrowing, run_field::BatchSlots},
    field_form::FieldForm,
    program::{FieldProgram, place_of},
    spec::TransformSpec,
};

/// Makes the batches of another maker, and transforms them on the same threads.
#[derive(Debug)]
pub struct Transformed {
    inner: Arc<dyn BatchMaker>,
    outputs: Vec<Output>,
    arena: Arc<Arena>,
    /// The memory that was granted; last, so that it is free again only when all of it is.
    _grant: Grant,
}

/// A field of the batches that are given out.
#[derive(Debug)]
enum Output {
    /// The field at this place, as it is.
    Same(usize, FieldForm),
    Made(FieldProgram),
    /// The field at this place, which no other output has, its numbers cast to shorter ones: where they lie, or as the program has it.
    Narrowed(usize, Narrowing, FieldProgram),
}

/// Memory for batches that are on their way.
#[derive(Debug)]
pub struct BatchRoom {
    /// Samples of a batch.
    pub batch_size: u64,
    /// Batches that are made or held at a time.
    pub batches: u64,
    /// Where it comes from.
    pub backing: Arc<dyn Backing>,
}

impl Transformed {
    /// The batches of `inner`, whose fields are `forms`, as `spec` says.
    pub fn new(
        inner: Arc<dyn BatchMaker>,
        forms: &[FieldForm],
        spec: &TransformSpec,
        room: BatchRoom,
    ) -> Result<Self> {
        let outputs = outputs(spec, forms)?;
        let made = outputs.iter().filter_map(|output| match output {
            Output::Made(program) | Output::Narrowed(_, _, program) => Some(program.mean_len()),
            Output::Same(..) => None,
        });
        let batch_len = made.fold(0, u64::saturating_add).saturating_mul(room.batch_size);
        let memory = batch_len.saturating_mul(room.batches);
        let arena = Arena::over(memory, room.backing);
        Ok(Self { inner, outputs, arena, _grant: ledger().take("transforms", memory) })
    }

    /// What is known of the fields that come out of `forms`, before there is a batch.
    pub fn forms_of(forms: &[FieldForm], spec: &TransformSpec) -> Result<Vec<FieldForm>> {
        let form = |output: Output| match output {
            Output::Same(_, form) => form,
            Output::Made(program) | Output::Narrowed(_, _, program) => program.form,
        };
        Ok(outputs(spec, forms)?.into_iter().map(form).collect())
    }

    fn transform(&self, made: Vec<FieldArray>, request: &BatchRequest<'_>) -> Result<Vec<FieldArray>> {
        let seed = |number: &Option<u64>| number.map(|number| request.epoch.sample_seed(number));
        let drawn = OnceCell::new();
        let seeds = || drawn.get_or_init(|| request.numbers.iter().map(seed).collect::<Vec<_>>());
        let memory = BatchMemory::new(&self.arena);
        let slots = || BatchSlots { seeds: seeds(), samples: request.samples };
        let run = |output: &Output| match output {
            Output::Same(..) => Ok(None),
            Output::Narrowed(at, narrowing, _)
                if made.get(*at).is_some_and(|field| narrowing.suits(field)) =>
            {
                Ok(None)
            }
            Output::Made(program) | Output::Narrowed(_, _, program) => {
                program.run(&made, slots(), &memory).map(Some)
            }
        };
        let new = self.outputs.iter().map(run).collect::<Result<Vec<_>>>()?;
        let mut made: Vec<Option<FieldArray>> = made.into_iter().map(Some).collect();
        let missing = || Error::new(ErrorKind::Bug, "a batch lacks a field");
        let mut take = |at: usize| made.get_mut(at).and_then(Option::take).ok_or_else(missing);
        let put = |(output, new): (&Output, Option<FieldArray>)| match (output, new) {
            (_, Some(new)) => Ok(new),
            (Output::Same(at, form), None) => Ok(FieldArray { name: form.name.clone(), ..take(*at)? }),
            (Output::Narrowed(at, narrowing, program), None) => Ok(narrowing.run(take(*at)?, &program.form)),
            (Output::Made(_), None) => Err(missing()),
        };
        self.outputs.iter().zip(new).map(put).collect()
    }
}

/// The fields that come out of `forms`.
fn outputs(spec: &TransformSpec, forms: &[FieldForm]) -> Result<Vec<Output>> {
    for (at, field) in spec.fields.iter().enumerate() {
        if spec.fields[..at].iter().any(|other| other.name == field.name) {
            return Err(Error::invalid(format!("two fields are called '{}'", field.name)));
        }
    }
    let mut left: Vec<_> = spec.fields.iter().collect();
    let mut outputs = Vec::new();
    if !spec.is_selection {
        for (at, form) in forms.iter().enumerate() {
            let own = left.iter().position(|field| field.name == form.name).map(|place| left.remove(place));
            outputs.push(match own {
                Some(field) => Output::Made(FieldProgram::new(field, forms)?),
                None => Output::Same(at, form.clone()),
            });
        }
    }
    for field in left {
        let is_renamed = field.ops.is_empty() && field.stack_axis.is_none() && field.from.len() == 1;
        let is_taken =
            |at: usize| outputs.iter().any(|other| matches!(other, Output::Same(taken, _) if *taken == at));
        outputs.push(match field.from.as_slice() {
            [only] if is_renamed && !is_taken(place_of(only, forms)?) => {
                let at = place_of(only, forms)?;
                Output::Same(at, FieldForm { name: field.name.clone(), ..forms[at].clone() })
            }
            _ => Output::Made(FieldProgram::new(field, forms)?),
        });
    }
    let used: Vec<usize> = outputs.iter().flat_map(Output::sources).copied().collect();
    let is_used_once = |at: usize| used.iter().filter(|other| **other == at).count() == 1;
    let narrowed = |output: Output| match output {
        Output::Made(program) => match Narrowing::of(&program, forms) {
            Some((at, narrowing)) if is_used_once(at) => Output::Narrowed(at, narrowing, program),
            _ => Output::Made(program),
        },
        other => other,
    };
    Ok(outputs.into_iter().map(narrowed).collect())
}

impl Output {
    /// The fields it is made of.
    fn sources(&self) -> &[usize] {
        match self {
            Self::Same(at, _) | Self::Narrowed(at, ..) => std::slice::from_ref(at),
            Self::Made(program) => &program.sources,
        }
    }
}

impl BatchMaker for Transformed {
    fn set(&self) -> &SetIdentity {
        self.inner.set()
    }

    fn threads(&self) -> MakerThreads {
        self.inner.threads()
    }

    fn make(&self, request: &BatchRequest<'_>) -> Result<MadeFields> {
        let MadeFields { fields, unverified } = self.inner.make(request)?;
        match (self.transform(fields, request), unverified) {
            (Ok(fields), unverified) => Ok(MadeFields { fields, unverified }),
            // Values that make no sense may be those of a file that was written to meanwhile.
            (Err(error), Some(unverified)) => Err(unverified.verify().err().unwrap_or(error)),
            (Err(error), None) => Err(error),
        }
    }

    fn is_too_long(&self, sample: u64) -> bool {
        self.inner.is_too_long(sample)
    }

    fn release_idle_memory(&self) {
        self.inner.release_idle_memory();
        self.arena.release();
    }

    fn stats(&self) -> LoaderStats {
        self.inner.stats()
    }
}
