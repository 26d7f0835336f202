//! The name by which the ranks of a job find each other, and those of another job do not.

use std::fmt;

use forebay_process::{Error, Result};

/// The name of a job, and of the attempt to run it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobName(String);

impl JobName {
    /// Any name that all ranks of a job have in common.
    pub fn new(name: impl Into<String>) -> Self {
        Self(name.into())
    }

    /// The name of a job that `torchrun` started: from the port of its master, its id, and how often it was restarted.
    pub fn from_torchrun(env: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        // Processes of an attempt that failed may still run when the next begins.
        let restart = env("TORCHELASTIC_RESTART_COUNT").filter(|value| !value.is_empty());
        let run = Self::from_torchrun_nodes(env)?;
        Ok(Self(format!("{run}-{}", restart.as_deref().unwrap_or("0"))))
    }

    /// The same for a job on several nodes, whose agents count restarts each for itself: every attempt has a key-value store, and
    /// so a port, of its own.
    pub fn from_torchrun_nodes(env: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let given = |name: &str| env(name).filter(|value| !value.is_empty());
        let port = given("MASTER_PORT").ok_or_else(|| {
            let hint = "start the job by torchrun, or set it to a port that is free on the node of rank 0";
            Error::invalid("MASTER_PORT is not set").hint(hint)
        })?;
        let run = given("TORCHELASTIC_RUN_ID").unwrap_or_else(|| "none".to_owned());
        Ok(Self(format!("torch-{port}-{run}")))
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for JobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_and_runs_of_torchrun_have_names_of_their_own() {
        let name = |values: &[(&str, &str)]| {
            let values = values.to_vec();
            JobName::from_torchrun(&move |name| {
                values.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            })
        };
        let all =
            [("MASTER_PORT", "29500"), ("TORCHELASTIC_RUN_ID", "a/b"), ("TORCHELASTIC_RESTART_COUNT", "2")];
        assert_eq!(name(&all).expect("a name").as_str(), "torch-29500-a/b-2");
        assert_eq!(name(&all[..1]).expect("a name").as_str(), "torch-29500-none-0");
        let nodes = JobName::from_torchrun_nodes(&|name: &str| {
            all.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        });
        assert_eq!(
            nodes.expect("a name").as_str(),
            "torch-29500-a/b",
            "agents may count restarts differently"
        );
        let error = name(&all[1..]).expect_err("no port").to_string();
        assert!(error.contains("MASTER_PORT") && error.contains("torchrun"), "{error}");
        assert!(name(&[("MASTER_PORT", "")]).is_err());
    }
}
