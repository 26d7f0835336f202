//! The attributes by which HDF5 and NetCDF-4 keep what axes are called: dimension scales, labels and numbers.

use crate::{
    container::{Container, variable::Attribute},
    values::array::Array,
};

/// The attribute that lists the dimension scales of each axis.
pub const SCALE_LIST: &str = "DIMENSION_LIST";
/// The attribute that has a text for each axis.
pub const AXIS_LABELS: &str = "DIMENSION_LABELS";
/// NetCDF-4's number of the dimension that a variable stands for; netCDF-C writes it on variables of several axes too, which
/// stand for none.
pub const OWN_NUMBER: &str = "_Netcdf4Dimid";
/// NetCDF-4's numbers of the dimensions of a coordinate variable of several axes.
pub const AXIS_NUMBERS: &str = "_Netcdf4Coordinates";

/// True for attributes that only the NetCDF libraries write.
pub fn is_netcdf_attribute(name: &str) -> bool {
    matches!(name, "_NCProperties" | "_nc3_strict" | OWN_NUMBER | AXIS_NUMBERS)
}

/// True when the value of an attribute `CLASS` says that its variable is a dimension scale.
pub fn says_scale(class: Option<&Array>) -> bool {
    class.and_then(Array::texts).is_some_and(|class| class == ["DIMENSION_SCALE"])
}

impl Container {
    /// The names of the dimension scales in the HDF5 group `group` that may grow: not those of the groups around it.
    pub fn growing_scales(&self, group: &str) -> impl Iterator<Item = &str> {
        self.in_file_order().filter_map(move |variable| {
            let (parent, name) = variable.name.rsplit_once('/').unwrap_or(("", &variable.name));
            let grows = variable.max_shape.first() == Some(&None);
            (parent == group && grows && says_scale(variable.attribute("CLASS"))).then_some(name)
        })
    }
}

impl Attribute {
    /// True when, among the attributes of `owner`, this one keeps dimensions for HDF5 or NetCDF-4: it says nothing of values.
    pub fn is_internal(&self, owner: &[Self]) -> bool {
        match self.name.as_str() {
            SCALE_LIST | AXIS_LABELS | "REFERENCE_LIST" => true,
            "CLASS" | "NAME" => {
                owner.iter().any(|other| other.name == "CLASS" && says_scale(other.value.as_ref().ok()))
            }
            name => is_netcdf_attribute(name),
        }
    }
}
