//! Where a walk met what it describes, so that what soft and external links lead to stands in the place of the link.
//!
//! Such links are followed last, once everything has its own name.

use std::{cmp::Ordering, iter, rc::Rc};

/// Where a link stands in the file: when the walk met those that led to it, the outermost first, and itself.
pub(crate) type LinkPlace = Rc<[u64]>;

/// Where something that was described stands: inside a link that was followed, or nowhere inside, and when the walk met it.
#[derive(Debug)]
struct WalkPlace {
    inside: LinkPlace,
    met: u64,
}

/// The places of all that was described, in the order it was described in.
#[derive(Debug, Default)]
pub(crate) struct WalkOrder {
    /// How many links the walk has met.
    met: u64,
    /// The place of the soft or external link that is followed now; empty before any is.
    inside: LinkPlace,
    variables: Vec<WalkPlace>,
    groups: Vec<WalkPlace>,
}

impl WalkOrder {
    /// Notes that the next link was met.
    pub(crate) fn meet(&mut self) {
        self.met += 1;
    }

    /// The place of the link that was met last.
    pub(crate) fn last_met(&self) -> LinkPlace {
        self.inside.iter().copied().chain(iter::once(self.met)).collect()
    }

    /// Notes that what is met from now on stands in the place of a link.
    pub(crate) fn follow(&mut self, place: &LinkPlace) {
        self.inside = Rc::clone(place);
    }

    /// Notes that a variable was described.
    pub(crate) fn add_variable(&mut self) {
        self.variables.push(self.place());
    }

    /// Notes that a group was described.
    pub(crate) fn add_group(&mut self) {
        self.groups.push(self.place());
    }

    fn place(&self) -> WalkPlace {
        WalkPlace { inside: Rc::clone(&self.inside), met: self.met }
    }

    /// Sorts what was described of a file by its places.
    pub(crate) fn sort<V, G>(self, variables: &mut Vec<V>, groups: &mut Vec<G>) {
        sort(self.variables, variables);
        sort(self.groups, groups);
    }
}

fn sort<T>(places: Vec<WalkPlace>, all: &mut Vec<T>) {
    let mut placed: Vec<(WalkPlace, T)> = places.into_iter().zip(all.drain(..)).collect();
    placed.sort_by(|(left, _), (right, _)| left.compare(right));
    all.extend(placed.into_iter().map(|(_, one)| one));
}

impl WalkPlace {
    fn compare(&self, other: &Self) -> Ordering {
        let [own, other] = [self, other].map(|place| place.inside.iter().chain(iter::once(&place.met)));
        own.cmp(other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_links_lead_to_stands_where_they_do_among_what_is_beside_them() {
        let mut order = WalkOrder::default();
        let mut names = Vec::new();
        let mut add = |order: &mut WalkOrder, name: &'static str| {
            order.meet();
            order.add_variable();
            names.push(name);
        };
        let meet = |order: &mut WalkOrder| {
            order.meet();
            order.last_met()
        };
        add(&mut order, "first");
        let link = meet(&mut order);
        add(&mut order, "last");
        order.follow(&link);
        let inner = [meet(&mut order), meet(&mut order)];
        add(&mut order, "beside the inner links");
        for (link, name) in inner.iter().zip(["one link inside", "another link inside"]) {
            order.follow(link);
            add(&mut order, name);
        }
        order.sort(&mut names, &mut Vec::<()>::new());
        let wanted = ["first", "one link inside", "another link inside", "beside the inner links", "last"];
        assert_eq!(names, wanted);
    }
}
