//! The fields that a loader gives out: others of the set are not read for it.

use std::{collections::HashSet, sync::Arc};

use forebay_container::sample_spec::Boundary;
use forebay_loader::{FieldFacts, FieldSpec, SampleSet, set_identity};
use forebay_transform::TransformSpec;

/// `set` without the fields that `spec` leaves out, where the others stand by themselves, or else all of it. Samples are the same
/// either way, and so are orders and states.
pub fn selected_fields(set: &Arc<SampleSet>, spec: &TransformSpec) -> Arc<SampleSet> {
    let fields = &set.spec().fields;
    let facts: Vec<String> = set.fields().into_iter().map(|FieldFacts { name, .. }| name).collect();
    let selected = selected_names(&facts, spec);
    if selected.len() == facts.len() || !fields.iter().all(stands_alone) {
        return Arc::clone(set);
    }
    // A mask is read with the values it belongs to.
    let is_wanted = |name: &String| selected.contains(name) || selected.contains(&format!("{name}_mask"));
    let names: Vec<String> = fields.iter().map(|field| field.name.clone()).filter(is_wanted).collect();
    let alone = set.of_fields(&names).ok().filter(|alone| alone.len() == set.len());
    alone.map_or_else(|| Arc::clone(set), |alone| Arc::new(alone.known_as(set_identity(set))))
}

/// Those of the fields `names` that `spec` makes something of; all where it leaves none out, or names one that is not there, which
/// is an error that lists all.
pub fn selected_names(names: &[String], spec: &TransformSpec) -> Vec<String> {
    let sources: HashSet<&String> = spec.fields.iter().flat_map(|field| &field.from).collect();
    let is_known = !sources.is_empty() && sources.iter().all(|name| names.contains(name));
    let is_chosen = |name: &&String| !spec.is_selection || !is_known || sources.contains(name);
    names.iter().filter(is_chosen).cloned().collect()
}

/// False of windows and groups, which lie where all fields have them.
fn stands_alone(field: &FieldSpec) -> bool {
    matches!(
        field.samples,
        Boundary::Fixed { .. } | Boundary::Along { .. } | Boundary::Ragged { .. } | Boundary::Whole
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selection_reads_what_its_fields_are_made_of_in_the_order_of_the_set() {
        let names = ["a", "b", "c"].map(str::to_owned);
        let spec = |from: &[&str], is_selection: bool| {
            let fields = serde_json::json!([{ "name": "x", "from": from }]);
            let fields = serde_json::from_value(fields).expect("fields");
            TransformSpec { fields, is_selection }
        };
        assert_eq!(selected_names(&names, &spec(&["c", "a"], true)), ["a", "c"]);
        assert_eq!(selected_names(&names, &spec(&["c"], false)), names);
        assert_eq!(selected_names(&names, &spec(&["c", "d"], true)), names);
        assert_eq!(selected_names(&names, &TransformSpec::default()), names);
    }
}
