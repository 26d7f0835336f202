//! What a sample is, as the command line says it: boundaries, windows with their targets, axes and members of single fields.

use forebay::{
    Error, ErrorKind, Result,
    loader::{AxisLen, AxisName, Boundary, Centres, FieldSpec, FilesAxis, Leads, Offsets, SeriesSpec},
    sample_words,
};

/// What a sample is.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Samples")]
pub(crate) struct SamplesArgs {
    /// Sample boundary: what of a variable is one sample: fixed:ROWS, along:AXIS[:ROWS], windows:SIZE, centres:VARIABLE:SIZE,
    /// ragged:OFFSETS[:AXIS], lengths:VARIABLE[:AXIS], groups:PATTERN, group-rows:PATTERN, whole (one for each file) or constant (comes with every
    /// sample). FIELD=BOUNDARY is for one field; may be given more than once. SIZE is time=4,lat=16 or 4,16; OFFSETS a variable,
    /// or two: BEGIN,END [default: fixed:1].
    #[arg(long, value_name = "BOUNDARY", value_parser = SamplesArg::parse)]
    samples: Vec<SamplesArg>,

    /// From one window to the next, by axis, such as time=1 [default: windows touch].
    #[arg(long, value_name = "LENGTHS", value_parser = lens)]
    stride: Option<AxisLens>,

    /// From one element of a window to the next, by axis [default: 1].
    #[arg(long, value_name = "LENGTHS", value_parser = lens)]
    step: Option<AxisLens>,

    /// Lead times of targets: time=1,6 makes a field NAME_target of each, with what lies 1 and 6 rows after its window; time=1-6 takes
    /// all six. The label is a target alone.
    #[arg(long, value_name = "LEADS", value_parser = sample_words::lead_times)]
    targets: Option<Leads>,

    /// The axis along which files follow each other, such as time: windows go on from file to file.
    #[arg(long, value_name = "AXIS", value_parser = sample_words::axis_name)]
    files_axis: Option<AxisName>,

    /// Gaps of that axis, such as a file that is missing: no window crosses them, or all may.
    #[arg(long, value_name = "HOW", default_value = "split", requires = "files_axis")]
    gaps: Gaps,

    /// The order of the axes of one sample: FIELD=2,0,1 makes channels-first of channels-last. May be given more than once.
    #[arg(long, value_name = "FIELD=AXES", value_parser = axes)]
    axes: Vec<(String, Vec<usize>)>,

    /// Which part of windows with targets a field gives: FIELD=input or FIELD=target [default: both].
    #[arg(long, value_name = "FIELD=PART", value_parser = part)]
    part: Vec<(String, FieldPart)>,

    /// One member of a variable of compounds: FIELD=MEMBER.
    #[arg(long, value_name = "FIELD=MEMBER", value_parser = member)]
    member: Vec<(String, String)>,
}

/// What becomes of gaps between files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Gaps {
    /// No window crosses them.
    Split,
    /// Windows may.
    Cross,
}

/// What a field gives of windows with targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldPart {
    Input,
    Target,
}

/// A boundary, of all fields or of one.
#[derive(Clone, Debug, PartialEq)]
struct SamplesArg {
    field: Option<String>,
    boundary: Boundary,
}

/// Lengths by axis.
#[derive(Clone, Debug, PartialEq)]
struct AxisLens(Vec<AxisLen>);

impl SamplesArgs {
    /// The boundary of the field `name`.
    fn boundary(&self, name: &str) -> Boundary {
        self.own(name).or_else(|| self.of_all()).cloned().unwrap_or_default()
    }

    fn own(&self, name: &str) -> Option<&Boundary> {
        self.samples.iter().rev().find(|one| one.field.as_deref() == Some(name)).map(|one| &one.boundary)
    }

    fn of_all(&self) -> Option<&Boundary> {
        self.samples.iter().rev().find(|one| one.field.is_none()).map(|one| &one.boundary)
    }

    /// Variables that say where samples lie, and are no fields by default.
    pub(crate) fn tables(&self) -> Vec<&str> {
        let tables = self.samples.iter().flat_map(|one| match &one.boundary {
            Boundary::Ragged { offsets: Offsets::Variable(name) | Offsets::Lengths(name), .. }
            | Boundary::Centres { at: Centres::Variable(name), .. } => vec![name.as_str()],
            Boundary::Ragged { offsets: Offsets::BeginEnd(begin, end), .. } => vec![begin.as_str(), end],
            _ => Vec::new(),
        });
        tables.map(|name| name.trim_matches('/')).collect()
    }

    /// True when fields have to be named: those of groups are not found by their rows.
    pub(crate) fn need_names(&self) -> bool {
        self.samples
            .iter()
            .any(|one| matches!(one.boundary, Boundary::Groups { .. } | Boundary::GroupRows { .. }))
    }

    /// Refuses flags about windows where there are none, and about fields that there are not.
    pub(crate) fn check(&self, fields: &[&str]) -> Result<()> {
        let has_windows = self.samples.iter().any(|one| matches!(one.boundary, Boundary::Windows { .. }));
        let about = [("--stride", self.stride.is_some()), ("--step", self.step.is_some())];
        let about = about.into_iter().chain([("--targets", self.targets.is_some())]);
        if let Some((flag, _)) = about.into_iter().find(|(_, is_given)| *is_given && !has_windows) {
            let error =
                Error::new(ErrorKind::Invalid, format!("{flag} is about windows, and there are none"));
            return Err(error.hint("give --samples windows:SIZE"));
        }
        let parts = self.part.iter().map(|(name, _)| ("--part", name));
        let named = self.samples.iter().filter_map(|one| Some(("--samples", one.field.as_ref()?)));
        let named = named.chain(self.axes.iter().map(|(name, _)| ("--axes", name))).chain(parts);
        let mut named = named.chain(self.member.iter().map(|(name, _)| ("--member", name)));
        if let Some((flag, name)) = named.find(|(_, name)| !fields.contains(&name.as_str())) {
            let error = Error::new(ErrorKind::Invalid, format!("{flag} names '{name}', which is no field"));
            return Err(error.hint(format!("there are {}", fields.join(", "))));
        }
        Ok(())
    }

    /// `field` with its samples, and a second one where its windows have targets.
    pub(crate) fn cut(&self, mut field: FieldSpec, is_label: bool) -> Result<Vec<FieldSpec>> {
        let of = |list: &[(String, Vec<usize>)]| list.iter().find(|(name, _)| *name == field.name).cloned();
        let part = self.part.iter().rev().find(|(name, _)| *name == field.name).map(|(_, part)| *part);
        field.convert.axes = of(&self.axes).map(|(_, axes)| axes);
        field.member =
            self.member.iter().find(|(name, _)| *name == field.name).map(|(_, member)| member.clone());
        let is_fixed = is_label && self.own(&field.name).is_none();
        let boundary = match self.boundary(&field.name) {
            // A molecule has many atoms and one energy.
            Boundary::Ragged { .. } if is_fixed => Boundary::default(),
            boundary => self.over_files(boundary)?,
        };
        let Boundary::Windows { size, .. } = boundary else {
            return Ok(vec![FieldSpec { samples: boundary, ..field }]);
        };
        let lens = |lens: &Option<AxisLens>| lens.as_ref().map_or_else(Vec::new, |lens| lens.0.clone());
        let (stride, step) = (lens(&self.stride), lens(&self.step));
        if self.targets.is_none() && self.files_axis.is_none() {
            return Ok(vec![FieldSpec { samples: Boundary::Windows { size, stride, step }, ..field }]);
        }
        let crosses_gaps = self.gaps == Gaps::Cross;
        let files = self.files_axis.clone().map(|axis| FilesAxis { axis, crosses_gaps });
        let series =
            SeriesSpec { size, stride, step, files, targets: self.targets.clone(), is_target: false };
        let window = FieldSpec { samples: Boundary::Series(series.clone()), ..field.clone() };
        let target = Boundary::Series(SeriesSpec { is_target: true, ..series });
        // What is to be foretold is what follows.
        let part = part.or((is_label && self.targets.is_some()).then_some(FieldPart::Target));
        Ok(match (&self.targets, part) {
            (None, Some(FieldPart::Target)) => {
                let what = format!("field '{}' is a target, and windows have none", field.name);
                return Err(Error::new(ErrorKind::Invalid, what).hint("give --targets"));
            }
            (None, _) | (_, Some(FieldPart::Input)) => vec![window],
            (_, Some(FieldPart::Target)) => vec![FieldSpec { samples: target, ..field }],
            (_, None) => {
                let name = format!("{}_target", field.name);
                vec![window, FieldSpec { name, samples: target, ..field }]
            }
        })
    }

    /// `boundary` as windows, where they may go on from file to file.
    fn over_files(&self, boundary: Boundary) -> Result<Boundary> {
        let windows = |axis: AxisName, rows: u64| Boundary::Windows {
            size: vec![AxisLen { axis, len: rows }],
            stride: Vec::new(),
            step: Vec::new(),
        };
        Ok(match boundary {
            boundary if self.files_axis.is_none() => boundary,
            Boundary::Fixed { rows } if rows > 1 => windows(AxisName::Index(0), rows),
            Boundary::Along { axis, rows } if rows > 1 => windows(axis, rows),
            Boundary::Fixed { .. }
            | Boundary::Along { .. }
            | Boundary::Windows { .. }
            | Boundary::Constant => boundary,
            _ => {
                let what = "only windows, fixed and along go on from file to file";
                return Err(Error::new(ErrorKind::Invalid, what).hint("leave out --files-axis"));
            }
        })
    }
}

impl SamplesArg {
    /// `BOUNDARY` or `FIELD=BOUNDARY`.
    fn parse(text: &str) -> Result<Self, String> {
        // Sizes of windows have equals signs too, behind the colon.
        let named = text.split_once('=').filter(|(field, _)| !field.contains(':') && !field.is_empty());
        let (field, words) = named.map_or((None, text), |(field, words)| (Some(field.to_owned()), words));
        Ok(Self { field, boundary: sample_words::boundary(words)? })
    }
}

fn lens(text: &str) -> Result<AxisLens, String> {
    sample_words::axis_lens(text).map(AxisLens)
}

fn of_field(text: &str) -> Result<(String, &str), String> {
    let named = text.split_once('=').filter(|(field, value)| !field.is_empty() && !value.is_empty());
    named.map(|(field, value)| (field.to_owned(), value)).ok_or_else(|| format!("'{text}' is not FIELD=…"))
}

fn axes(text: &str) -> Result<(String, Vec<usize>), String> {
    let (field, list) = of_field(text)?;
    let axes = list.split(',').map(|axis| axis.parse().map_err(|_| format!("'{axis}' is no axis' position")));
    Ok((field, axes.collect::<Result<_, String>>()?))
}

fn part(text: &str) -> Result<(String, FieldPart), String> {
    match of_field(text)? {
        (field, "input") => Ok((field, FieldPart::Input)),
        (field, "target") => Ok((field, FieldPart::Target)),
        (_, other) => Err(format!("'{other}' is neither input nor target")),
    }
}

fn member(text: &str) -> Result<(String, String), String> {
    of_field(text).map(|(field, member)| (field, member.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_boundary_is_for_all_fields_or_for_one() {
        let field = |text| SamplesArg::parse(text).unwrap().field;
        assert_eq!(field("windows:time=4"), None);
        assert_eq!(field("edges=ragged:ptr:1"), Some("edges".into()));
        assert!(SamplesArg::parse("edges=").is_err());
    }
}
