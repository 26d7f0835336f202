//! The order in which a file has its variables, beside the one by name in which they are found.
//!
//! Programs that stack variables without naming them, as `to_array` of xarray does, depend on it.

use crate::container::{Container, variable::Variable};

impl Container {
    /// Sorts `variables`, which stand in the order of the file, by name, and keeps that order; of two of one name the first stays.
    pub fn sort_variables(&mut self) {
        let mut placed: Vec<(u32, Variable)> = (0..).zip(self.variables.drain(..)).collect();
        placed.sort_by(|(_, left), (_, right)| left.name.cmp(&right.name));
        placed.dedup_by(|(_, later), (_, earlier)| later.name == earlier.name);
        let mut order: Vec<(u32, u32)> =
            placed.iter().zip(0..).map(|((place, _), index)| (*place, index)).collect();
        order.sort_unstable();
        // Most formats have names alone: what nobody needs is not saved either.
        let is_by_name = order.is_sorted_by_key(|(_, index)| *index);
        self.order =
            if is_by_name { Vec::new() } else { order.into_iter().map(|(_, index)| index).collect() };
        self.variables = placed.into_iter().map(|(_, variable)| variable).collect();
    }

    /// All variables in the order of the file; by name where that is not known.
    pub fn in_file_order(&self) -> impl Iterator<Item = &Variable> {
        let by_name = if self.order.is_empty() { &self.variables[..] } else { &[] };
        self.order.iter().filter_map(|index| self.variables.get(*index as usize)).chain(by_name)
    }

    /// True when `order` has each variable once, or none at all.
    pub(crate) fn order_is_sound(&self) -> bool {
        let mut sorted = self.order.clone();
        sorted.sort_unstable();
        sorted.is_empty()
            || (sorted.len() == self.variables.len()
                && sorted.into_iter().zip(0..).all(|(found, place)| found == place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Number, dtype::Dtype};

    fn of(names: &[&str]) -> Container {
        let variable = |name: &&str| Variable::new(*name, Dtype::native(Number::U8), vec![1]);
        let mut container =
            Container { variables: names.iter().map(variable).collect(), ..Container::default() };
        container.sort_variables();
        container
    }

    fn in_file_order(container: &Container) -> Vec<&str> {
        container.in_file_order().map(|variable| variable.name.as_str()).collect()
    }

    #[test]
    fn variables_are_found_by_name_and_listed_in_the_order_of_the_file() {
        let container = of(&["v", "a", "u", "b"]);
        assert!(container.variables.is_sorted_by_key(|variable| &variable.name));
        assert_eq!(in_file_order(&container), ["v", "a", "u", "b"]);
        assert_eq!(container.variable("u").unwrap().name, "u");
    }

    #[test]
    fn names_in_order_need_no_other_and_of_two_of_one_name_the_first_stays() {
        assert!(of(&["a", "b"]).order.is_empty());
        assert_eq!(in_file_order(&of(&["a", "b"])), ["a", "b"]);
        assert_eq!(in_file_order(&of(&["v", "a", "v"])), ["v", "a"]);
    }

    #[test]
    fn the_order_is_saved_and_one_that_leaves_a_variable_out_is_refused() {
        let mut container = of(&["v", "a", "u"]);
        let loaded =
            crate::container::saved::load(&crate::container::saved::save(&container).unwrap()).unwrap();
        assert_eq!(in_file_order(&loaded), ["v", "a", "u"]);
        for damaged in [vec![0, 1], vec![0, 1, 1], vec![0, 1, 3]] {
            container.order = damaged;
            assert!(
                crate::container::saved::load(&crate::container::saved::save(&container).unwrap()).is_err()
            );
        }
    }
}
