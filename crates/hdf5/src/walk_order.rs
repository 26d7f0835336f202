//! Where a walk met what it describes, so that what soft and external links lead to stands in the place of the link.
//!
//! Such links are followed last, once everything has its own name.

/// Where something stands in the file: when the walk met it, or the link that led to it, and when it was described.
type FilePlace = (u64, u64);

/// The places of all that was described, in the order it was described in.
#[derive(Debug, Default)]
pub(crate) struct WalkOrder {
    /// How many links the walk has met.
    met: u64,
    /// The place of the soft or external link that is followed now.
    link: Option<u64>,
    variables: Vec<FilePlace>,
    groups: Vec<FilePlace>,
}

impl WalkOrder {
    /// Notes that the next link was met, and gives its place.
    pub(crate) fn meet(&mut self) -> u64 {
        self.met += 1;
        self.link.unwrap_or(self.met)
    }

    /// Notes that what is met from now on stands in the place of a link, `place`.
    pub(crate) fn follow(&mut self, place: u64) {
        self.link = Some(place);
    }

    /// Notes that a variable was described.
    pub(crate) fn add_variable(&mut self) {
        self.variables.push(self.place());
    }

    /// Notes that a group was described.
    pub(crate) fn add_group(&mut self) {
        self.groups.push(self.place());
    }

    fn place(&self) -> FilePlace {
        (self.link.unwrap_or(self.met), self.met)
    }

    /// Sorts what was described of a file by its places.
    pub(crate) fn sort<V, G>(self, variables: &mut Vec<V>, groups: &mut Vec<G>) {
        sort(self.variables, variables);
        sort(self.groups, groups);
    }
}

fn sort<T>(places: Vec<FilePlace>, all: &mut Vec<T>) {
    let mut placed: Vec<(FilePlace, T)> = places.into_iter().zip(all.drain(..)).collect();
    placed.sort_by_key(|(place, _)| *place);
    all.extend(placed.into_iter().map(|(_, one)| one));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_link_leads_to_stands_where_the_link_does() {
        let mut order = WalkOrder::default();
        order.meet();
        order.add_variable();
        let link = order.meet();
        order.meet();
        order.add_variable();
        order.follow(link);
        order.meet();
        order.add_variable();
        order.meet();
        order.add_variable();
        let (mut names, mut groups) = (vec!["first", "last", "linked", "linked too"], Vec::<()>::new());
        order.sort(&mut names, &mut groups);
        assert_eq!(names, ["first", "linked", "linked too", "last"]);
    }
}
