//! Patterns that name groups of a container.

/// True when `pattern` names the group `name`: `*` stands for anything but slashes, `?` for one such character.
pub fn is_named(name: &str, pattern: &str) -> bool {
    let (mut names, mut patterns) = (name.split('/'), pattern.split('/'));
    loop {
        match (names.next(), patterns.next()) {
            (None, None) => return true,
            (Some(name), Some(pattern)) if is_like(name, pattern) => {}
            _ => return false,
        }
    }
}

/// True when `pattern`, which has no slashes, stands for `name`.
fn is_like(name: &str, pattern: &str) -> bool {
    let (name, pattern): (Vec<char>, Vec<char>) = (name.chars().collect(), pattern.chars().collect());
    let (mut at, mut by) = (0, 0);
    // Where to go on if what follows the last star does not fit: the star takes one more.
    let mut star: Option<(usize, usize)> = None;
    while at < name.len() {
        match pattern.get(by) {
            Some('*') => {
                star = Some((at, by + 1));
                by += 1;
            }
            Some(one) if *one == '?' || *one == name[at] => (at, by) = (at + 1, by + 1),
            _ => match &mut star {
                Some((taken, after)) => {
                    *taken += 1;
                    (at, by) = (*taken, *after);
                }
                None => return false,
            },
        }
    }
    pattern[by..].iter().all(|one| *one == '*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_anything_between_two_slashes() {
        for (name, pattern, is_so) in [
            ("mol_1", "mol_*", true),
            ("mol_1/inner", "mol_*", false),
            ("set/mol_12", "*/mol_??", true),
            ("set/mol_1", "*/mol_??", false),
            ("mol", "mol*", true),
            ("amolb", "*mol", false),
            ("aXbXc", "*X*c", true),
            ("mol_1", "mol_1", true),
            ("mol_1", "*", true),
        ] {
            assert_eq!(is_named(name, pattern), is_so, "{name} {pattern}");
        }
    }
}
