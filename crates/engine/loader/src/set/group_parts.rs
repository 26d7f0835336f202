//! Groups of a file that are samples: which of them a pattern names, and which variable of each is meant.

use forebay_container::group_pattern::is_named;
use forebay_format::Opened;
use forebay_process::{Error, ErrorKind, Result};

/// The names of the variable `member` in every group of `opened` that `pattern` names, in the order of the groups' names.
pub(crate) fn members(opened: &Opened, pattern: &str, member: &str) -> Result<Vec<String>> {
    let pattern = pattern.trim_matches('/');
    let groups = opened.container().groups.iter().filter(|group| !group.name.is_empty());
    let mut names: Vec<&str> = groups.map(|group| group.name.trim_matches('/')).collect();
    names.retain(|name| is_named(name, pattern));
    names.sort_unstable();
    if names.is_empty() {
        let error = Error::new(ErrorKind::NotFound, format!("no group is called '{pattern}'"));
        let some: Vec<&str> = opened
            .container()
            .groups
            .iter()
            .map(|group| group.name.as_str())
            .filter(|name| !name.is_empty())
            .take(3)
            .collect();
        let error = match some.is_empty() {
            true => error.hint("the file has no groups"),
            false => error.hint(format!("its groups are called such as '{}'", some.join("', '"))),
        };
        return Err(match opened.container().sources.first() {
            Some(id) => error.at(&id.locator),
            None => error,
        });
    }
    let member = member.trim_matches('/');
    Ok(names.into_iter().map(|group| format!("{group}/{member}")).collect())
}
