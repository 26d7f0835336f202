//! The arrays of an object, under their Silo names and in C order.

use forebay_process::{Error, ErrorKind, Result};

use super::{
    object::{MemberValue, Object, ObjectKind},
    tree::{Tree, is_one_chunk},
};
use forebay_container::{
    Array, Attribute, ByteOrder, Dtype, Extents, Grid, Number, Padding, Values, Variable,
};

/// An array of an object.
#[derive(Clone, Debug)]
pub(super) struct SiloField {
    /// The array, described under its full name.
    pub(super) variable: Variable,
    /// What its name adds to the object's: empty, `/0`, `/coord0`.
    pub(super) suffix: String,
    /// The name it is stored under, where it is stored as one array.
    pub(super) stored: Option<String>,
}

/// How an array's axes are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Axes {
    /// As it is stored.
    Own,
    /// By the object's `dims` and `major_order`.
    Object,
}

/// Members that are arrays of values, by kind of object.
fn plain_members(kind: ObjectKind) -> &'static [&'static str] {
    match kind {
        ObjectKind::Material => &["matnos", "mix_vf", "mix_next", "mix_mat", "mix_zone"],
        ObjectKind::Species => &["nmatspec", "species_mf", "mix_speclist"],
        ObjectKind::ZoneList => {
            &["nodelist", "shapecnt", "shapesize", "shapetype", "gzoneno", "ghost_zone_labels"]
        }
        ObjectKind::PolyhedralZoneList => {
            &["nodecnt", "nodelist", "facecnt", "facelist", "extface", "gzoneno"]
        }
        ObjectKind::FaceList => &["nodelist", "shapecnt", "shapesize", "types", "typelist", "zoneno"],
        ObjectKind::EdgeList => &["edge_beg", "edge_end"],
        ObjectKind::CellMesh | ObjectKind::PointMesh | ObjectKind::QuadMesh => {
            &["gnodeno", "ghost_node_labels", "ghost_zone_labels"]
        }
        _ => &[],
    }
}

/// The arrays of `object`.
pub(super) fn of(tree: &Tree, object: &Object) -> Result<Vec<SiloField>> {
    let fields = Fields { tree, object };
    let mut found = match object.kind {
        ObjectKind::Solids => {
            let what = "a mesh of constructive solids, which has no arrays of values";
            return Err(Error::new(ErrorKind::Unsupported, what));
        }
        ObjectKind::QuadVariable => fields.components("value", Axes::Object)?,
        ObjectKind::CellVariable => fields.components("value", Axes::Own)?,
        ObjectKind::PointVariable => fields.components("data", Axes::Own)?,
        ObjectKind::QuadMesh => fields.coordinates(fields.mesh_axes())?,
        ObjectKind::CellMesh | ObjectKind::PointMesh => fields.coordinates(Axes::Own)?,
        ObjectKind::Material => fields.named("matlist", "matlist", Axes::Object)?,
        ObjectKind::Species => fields.named("speclist", "speclist", Axes::Object)?,
        ObjectKind::Curve => fields.curve()?,
        ObjectKind::Other => fields.all()?,
        _ => Vec::new(),
    };
    for member in plain_members(object.kind) {
        found.extend(fields.named(member, member, Axes::Own)?);
    }
    Ok(found)
}

struct Fields<'a> {
    tree: &'a Tree,
    object: &'a Object,
}

impl Fields<'_> {
    /// The components of a field: one under the object's own name, several under their numbers.
    fn components(&self, member: &str, axes: Axes) -> Result<Vec<SiloField>> {
        let names = self.component_members(member);
        let mut found = Vec::new();
        for (number, name) in names.iter().enumerate() {
            let suffix = if names.len() == 1 { String::new() } else { format!("/{number}") };
            found.extend(self.field(name, suffix, axes)?);
            let mixed = if names.len() == 1 { "/mixed".into() } else { format!("/mixed{number}") };
            found.extend(self.field(&format!("mixed_value{number}"), mixed, Axes::Own)?);
        }
        Ok(found)
    }

    /// What the components are called: `value0`, `data0`, or in PDB files `_data` and `0_data`.
    fn component_members(&self, member: &str) -> Vec<String> {
        let is_there = |name: &String| self.object.array(name).is_some();
        let numbered =
            |name: &dyn Fn(usize) -> String| (0..).map(name).take_while(is_there).collect::<Vec<_>>();
        let first = numbered(&|number| format!("{member}{number}"));
        if !first.is_empty() {
            return first;
        }
        let second = numbered(&|number| format!("{number}_data"));
        if second.is_empty() {
            vec!["_data".to_owned()].into_iter().filter(is_there).collect()
        } else {
            second
        }
    }

    fn coordinates(&self, axes: Axes) -> Result<Vec<SiloField>> {
        let names = self.component_members("coord");
        let mut found = Vec::new();
        for (number, name) in names.iter().enumerate() {
            let fields = self.field(name, format!("/coord{number}"), axes)?;
            found.extend(fields.into_iter().map(|mut field| {
                for word in ["label", "units"] {
                    let text = self.object.text(&format!("{word}{number}"));
                    field.variable.attributes.extend(text.map(|text| text_attribute(word, text)));
                }
                field
            }));
        }
        Ok(found)
    }

    /// Nodes at the crossings of lines have a coordinate per line; those anywhere have one each.
    fn mesh_axes(&self) -> Axes {
        const ANYWHERE: i64 = 131;
        if self.object.integer("coordtype") == Some(ANYWHERE) { Axes::Object } else { Axes::Own }
    }

    fn curve(&self) -> Result<Vec<SiloField>> {
        let mut found = Vec::new();
        for (axis, members) in [("x", ["xvals", "xvarname"]), ("y", ["yvals", "yvarname"])] {
            for member in members {
                found.extend(self.named(member, axis, Axes::Own)?);
            }
        }
        Ok(found)
    }

    /// All members that are arrays.
    fn all(&self) -> Result<Vec<SiloField>> {
        let mut found = Vec::new();
        for (name, member) in &self.object.members {
            if let MemberValue::Array(stored) = member
                && self.tree.stored(stored).is_ok()
            {
                found.extend(self.named(name, name, Axes::Own)?);
            }
        }
        Ok(found)
    }

    fn named(&self, member: &str, name: &str, axes: Axes) -> Result<Vec<SiloField>> {
        self.field(member, format!("/{name}"), axes)
    }

    /// The array that `member` names, if it names one.
    fn field(&self, member: &str, suffix: String, axes: Axes) -> Result<Vec<SiloField>> {
        let Some(stored) = self.object.array(member) else { return Ok(Vec::new()) };
        let mut variable = self.tree.stored(stored)?.clone();
        let stored = variable.name.clone();
        if axes == Axes::Object {
            let shape = self.shape(&variable)?;
            reshape(&mut variable, shape)?;
        }
        variable.name = format!("{}{suffix}", self.object.name);
        variable.attributes = self.attributes();
        Ok(vec![SiloField { variable, suffix, stored: Some(stored) }])
    }

    /// The shape in C order: the object's dims, which stand the other way round where the first one is the fastest.
    fn shape(&self, stored: &Variable) -> Result<Vec<u64>> {
        let ndim = self.object.integer("ndims").and_then(|ndim| usize::try_from(ndim).ok());
        let own = &stored.grid.shape;
        let mut shape = own.clone();
        if ndim.is_some_and(|ndim| ndim != own.len()) {
            let dims = self.tree.integers(self.object, "dims")?.unwrap_or_default();
            let dims = dims.iter().take(ndim.unwrap_or(0)).map(|len| u64::try_from(*len).ok());
            if let Some(dims) = dims.collect::<Option<Vec<u64>>>()
                && forebay_container::shape::product(&dims) == stored.grid.element_count()
            {
                shape = dims;
            }
        }
        if self.object.integer("major_order").unwrap_or(0) == 0 {
            shape.reverse();
        }
        Ok(shape)
    }

    /// What is known of the object besides its values.
    fn attributes(&self) -> Vec<Attribute> {
        let object = self.object;
        let mut found = Vec::new();
        for (member, name) in
            [("label", "label"), ("units", "units"), ("meshid", "mesh"), ("meshname", "mesh")]
        {
            found.extend(object.text(member).map(|text| text_attribute(name, text)));
        }
        let centering = object.integer("centering").and_then(|code| match code {
            110 => Some("nodes"),
            111 => Some("zones"),
            112 => Some("faces"),
            113 => Some("boundaries"),
            114 => Some("edges"),
            115 => Some("blocks"),
            _ => None,
        });
        found.extend(centering.map(|word| text_attribute("centering", word)));
        for name in ["cycle", "time", "dtime"] {
            found.extend(self.number(name).map(|value| Attribute { name: name.into(), value: Ok(value) }));
        }
        found
    }

    /// A single number: the member itself, or an array of one.
    fn number(&self, name: &str) -> Option<Array> {
        let (dtype, bytes) = match self.object.member(name)? {
            MemberValue::Integers(values) => {
                (Dtype::native(Number::I64), values.first()?.to_ne_bytes().to_vec())
            }
            MemberValue::Reals(values) => {
                (Dtype::native(Number::F64), values.first()?.to_ne_bytes().to_vec())
            }
            MemberValue::Array(stored) => {
                let variable = self.tree.stored(stored).ok()?;
                let bytes = (variable.grid.element_count() == 1).then(|| self.tree.bytes(stored).ok())??;
                let Dtype::Number { number, .. } = variable.dtype else { return None };
                (Dtype::Number { number, order: ByteOrder::NATIVE }, bytes)
            }
            MemberValue::Text(_) => return None,
        };
        Some(Array { dtype, shape: Vec::new(), values: Values::Fixed(bytes) })
    }
}

/// Gives `variable` another shape of as many elements: its bytes stay where they are.
pub(super) fn reshape(variable: &mut Variable, shape: Vec<u64>) -> Result<()> {
    if shape == variable.grid.shape {
        return Ok(());
    }
    let is_movable = match &variable.extents {
        Extents::Chunks(_) => is_one_chunk(variable) || variable.grid.element_count() == 0,
        Extents::Segments(_) | Extents::Inline(_) | Extents::Opaque(_) => true,
        _ => false,
    };
    if !is_movable || forebay_container::shape::product(&shape) != variable.grid.element_count() {
        let what =
            format!("{:?} elements in several chunks, where {shape:?} in one are due", variable.grid.shape);
        return Err(Error::new(ErrorKind::Unsupported, what).hint("read it by its stored name"));
    }
    variable.max_shape = shape.iter().map(|len| Some(*len)).collect();
    variable.grid = Grid::whole(shape);
    variable.dimensions = Vec::new();
    Ok(())
}

fn text_attribute(name: &str, text: &str) -> Attribute {
    let dtype = Dtype::Text { len: text.len().max(1), padding: Padding::NulPadded, utf8: true };
    let mut bytes = text.as_bytes().to_vec();
    bytes.resize(text.len().max(1), 0);
    Attribute {
        name: name.into(),
        value: Ok(Array { dtype, shape: Vec::new(), values: Values::Fixed(bytes) }),
    }
}
