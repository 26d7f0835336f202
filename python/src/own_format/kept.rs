//! The callables that read variables, kept by the file they belong to.

use std::{
    collections::{HashMap, VecDeque},
    process,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use forebay::source::SourceId;
use pyo3::prelude::*;

use super::given::PythonVariable;

/// Files whose callables are kept: each may hold a file open. For others `describe` is asked again.
const MOST_FILES: usize = 256;

/// What was described: its path, and which state of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DescribedKey {
    path: String,
    first: Option<SourceId>,
}

impl DescribedKey {
    pub(super) fn new(path: &str, first: Option<&SourceId>) -> Self {
        Self { path: path.to_owned(), first: first.cloned() }
    }
}

/// Callables by variable.
type Callables = HashMap<String, Py<PyAny>>;

/// The callables of one format. Touched only with the interpreter's lock held.
#[derive(Default)]
pub(super) struct KeptCallables(Mutex<FormatState>);

#[derive(Default)]
struct FormatState {
    process: u32,
    /// The one used last comes last.
    files: VecDeque<(DescribedKey, Callables)>,
    /// Who has it may call.
    turn: Arc<Mutex<()>>,
}

impl KeptCallables {
    fn state(&self) -> (MutexGuard<'_, FormatState>, VecDeque<(DescribedKey, Callables)>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut left = VecDeque::new();
        if state.process != process::id() {
            // A forked child shares the place in an open file with its parent, and the turn of a thread it has not.
            left = std::mem::take(&mut state.files);
            state.turn = Arc::default();
            state.process = process::id();
        }
        (state, left)
    }

    /// Callers take it in turn.
    pub(super) fn turn(&self) -> Arc<Mutex<()>> {
        let (state, left) = self.state();
        let turn = Arc::clone(&state.turn);
        drop(state);
        // The end of a Python object may be any Python code: not while the state is held.
        drop(left);
        turn
    }

    /// The callable of a variable.
    pub(super) fn get(&self, py: Python<'_>, key: &DescribedKey, variable: &str) -> Option<Py<PyAny>> {
        let (mut state, left) = self.state();
        let found = state.files.iter().position(|(known, _)| known == key).and_then(|at| {
            let file = state.files.remove(at)?;
            let callable = file.1.get(variable).map(|callable| callable.clone_ref(py));
            state.files.push_back(file);
            callable
        });
        drop(state);
        drop(left);
        found
    }

    /// Keeps the callables of `given`.
    pub(super) fn put(&self, _py: Python<'_>, key: DescribedKey, given: Vec<PythonVariable>) {
        let callables: Callables = given.into_iter().filter_map(|one| Some((one.name, one.read?))).collect();
        if callables.is_empty() {
            return;
        }
        let (mut state, mut left) = self.state();
        if let Some(at) = state.files.iter().position(|(known, _)| *known == key) {
            left.extend(state.files.remove(at));
        }
        state.files.push_back((key, callables));
        if state.files.len() > MOST_FILES {
            left.extend(state.files.pop_front());
        }
        drop(state);
        drop(left);
    }
}
