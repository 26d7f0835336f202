//! A policy that is written in Python.

use std::fmt;

use forebay::tier::{BlockFacts, Policy, Score};
use pyo3::prelude::*;

/// What is known of a copy that a policy ranks.
#[pyclass(frozen, name = "BlockFacts", module = "forebay._forebay")]
pub(crate) struct PyBlockFacts {
    /// The path or URL it is a copy of; `None` where a disk holds it for another job.
    #[pyo3(get)]
    locator: Option<String>,
    /// Which block of the file; `None` when it is all of it that is there.
    #[pyo3(get)]
    block: Option<u64>,
    /// Its bytes.
    #[pyo3(get)]
    length: u64,
    /// When it came: larger is later.
    #[pyo3(get)]
    placed: u64,
    /// When it was last used, on the same clock.
    #[pyo3(get)]
    used: u64,
    /// How often it was used.
    #[pyo3(get)]
    uses: u64,
    /// How many other uses come before its next; `None` where the future is not known.
    #[pyo3(get)]
    next_use: Option<u64>,
}

impl PyBlockFacts {
    fn of(facts: &BlockFacts<'_>) -> Self {
        Self {
            locator: facts.source.map(|source| source.locator.to_string()),
            block: facts.block,
            length: facts.len,
            placed: facts.placed,
            used: facts.used,
            uses: facts.uses,
            next_use: facts.next_use,
        }
    }
}

#[pymethods]
impl PyBlockFacts {
    fn __repr__(&self) -> String {
        let locator = self.locator.as_deref().unwrap_or("?");
        match self.block {
            Some(block) => format!("<block {block} of {locator}, {} bytes>", self.length),
            None => format!("<copy of {locator}, {} bytes>", self.length),
        }
    }
}

/// A policy that asks a Python callable.
pub(crate) struct PythonPolicy {
    pub(crate) rank: Py<PyAny>,
    pub(crate) newcomers_compete: bool,
}

impl fmt::Debug for PythonPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PythonPolicy")
    }
}

impl Policy for PythonPolicy {
    fn name(&self) -> &str {
        "python"
    }

    fn score(&self, facts: &BlockFacts<'_>) -> Score {
        let ask = |py: Python<'_>| self.rank.call1(py, (PyBlockFacts::of(facts),))?.extract::<Score>(py);
        // The callable tells of its own errors; when the interpreter ends there is nobody to ask.
        Python::try_attach(ask).and_then(PyResult::ok).unwrap_or(Score::NEG_INFINITY)
    }

    fn newcomers_compete(&self) -> bool {
        self.newcomers_compete
    }

    fn never_evicts(&self) -> bool {
        false
    }

    fn needs_foresight(&self) -> bool {
        false
    }
}
