//! Silo's objects: named members that are numbers, texts, or the names of stored arrays.

use forebay_container::{Dtype, Number};

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ObjectKind {
    QuadMesh,
    QuadVariable,
    CellMesh,
    CellVariable,
    PointMesh,
    PointVariable,
    Curve,
    Material,
    Species,
    ZoneList,
    PolyhedralZoneList,
    FaceList,
    EdgeList,
    MultiMesh,
    MultiVariable,
    MultiMaterial,
    MultiSpecies,
    /// Solids made of other solids: no arrays of values.
    Solids,
    /// Trees of groups, expressions and the like, which name and do not hold values.
    Structure,
    /// Arrays under one name, or a user's own object.
    Other,
}

impl ObjectKind {
    /// The kind that silo.h has `number` for.
    pub(super) fn of_number(number: i64) -> Self {
        match number {
            130 | 131 | 500 => Self::QuadMesh,
            501 => Self::QuadVariable,
            510 => Self::CellMesh,
            511 => Self::CellVariable,
            520 => Self::MultiMesh,
            521 => Self::MultiVariable,
            522 => Self::MultiMaterial,
            523 => Self::MultiSpecies,
            530 => Self::Material,
            531 => Self::Species,
            550 => Self::FaceList,
            551 => Self::ZoneList,
            552 => Self::EdgeList,
            553 => Self::PolyhedralZoneList,
            554..=556 => Self::Solids,
            560 => Self::Curve,
            570 => Self::PointMesh,
            571 => Self::PointVariable,
            524 | 565 | 611..=613 => Self::Structure,
            _ => Self::Other,
        }
    }

    /// The kind that PDB files call `word`.
    pub(super) fn of_word(word: &str) -> Self {
        match word {
            "quadmesh" | "quadmesh-rect" | "quadmesh-curv" => Self::QuadMesh,
            "quadvar" => Self::QuadVariable,
            "ucdmesh" => Self::CellMesh,
            "ucdvar" => Self::CellVariable,
            "multiblockmesh" | "multimesh" => Self::MultiMesh,
            "multiblockvar" | "multivar" => Self::MultiVariable,
            "multiblockmat" | "multimat" => Self::MultiMaterial,
            "multiblockmatspecies" | "multimatspecies" => Self::MultiSpecies,
            "material" => Self::Material,
            "matspecies" => Self::Species,
            "facelist" => Self::FaceList,
            "zonelist" => Self::ZoneList,
            "edgelist" => Self::EdgeList,
            "polyhedral-zonelist" | "phzonelist" => Self::PolyhedralZoneList,
            "csgmesh" | "csgvar" | "csgzonelist" => Self::Solids,
            "curve" => Self::Curve,
            "pointmesh" => Self::PointMesh,
            "pointvar" => Self::PointVariable,
            "multimeshadj" | "multiblockmeshadj" | "defvars" | "mrgtree" | "groupelmap" | "mrgvar" => {
                Self::Structure
            }
            _ => Self::Other,
        }
    }
}

/// The value of a member.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum MemberValue {
    Integers(Vec<i64>),
    Reals(Vec<f64>),
    Text(String),
    /// The name under which an array is stored.
    Array(String),
}

/// An object of a file.
#[derive(Clone, Debug)]
pub(super) struct Object {
    /// Full name, without the leading slash.
    pub(super) name: String,
    pub(super) kind: ObjectKind,
    pub(super) members: Vec<(String, MemberValue)>,
}

impl Object {
    /// The member called `name`.
    pub(super) fn member(&self, name: &str) -> Option<&MemberValue> {
        self.members.iter().find(|(known, _)| known == name).map(|(_, member)| member)
    }

    /// The stored name of the array that member `name` is.
    pub(super) fn array(&self, name: &str) -> Option<&str> {
        match self.member(name)? {
            MemberValue::Array(stored) => Some(stored),
            _ => None,
        }
    }

    /// The text that member `name` is.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.member(name)? {
            MemberValue::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// The first integer of member `name`.
    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        match self.member(name)? {
            MemberValue::Integers(values) => values.first().copied(),
            _ => None,
        }
    }
}

/// Native elements of an integer type as integers.
pub(super) fn integers(dtype: &Dtype, bytes: &[u8]) -> Option<Vec<i64>> {
    let Dtype::Number { number, .. } = dtype else { return None };
    if matches!(number, Number::F16 | Number::Bf16 | Number::F32 | Number::F64) {
        return None;
    }
    let one = |element: &[u8]| {
        let is_negative = number.is_signed_integer() && element.last().is_some_and(|byte| byte >> 7 == 1);
        let mut wide = [if is_negative { 0xff } else { 0 }; 8];
        wide[..element.len()].copy_from_slice(element);
        i64::from_le_bytes(wide)
    };
    Some(bytes.chunks_exact(number.size()).map(one).collect())
}
