//! Silo's objects: named members that are numbers, texts, or the names of stored arrays.

use super::{names, tree::Tree};

/// What an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
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

impl Kind {
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
pub(super) enum Member {
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
    pub(super) kind: Kind,
    pub(super) members: Vec<(String, Member)>,
}

/// Members that name another object, which can be read under this one's name as well.
const RELATIONS: [&str; 4] = ["zonelist", "facelist", "phzonelist", "edgelist"];

impl Object {
    /// The member called `name`.
    pub(super) fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|(known, _)| known == name).map(|(_, member)| member)
    }

    /// The stored name of the array that member `name` is.
    pub(super) fn array(&self, name: &str) -> Option<&str> {
        match self.member(name)? {
            Member::Array(stored) => Some(stored),
            _ => None,
        }
    }

    /// The text that member `name` is.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        match self.member(name)? {
            Member::Text(text) if !text.is_empty() => Some(text),
            _ => None,
        }
    }

    /// The first integer of member `name`.
    pub(super) fn integer(&self, name: &str) -> Option<i64> {
        match self.member(name)? {
            Member::Integers(values) => values.first().copied(),
            _ => None,
        }
    }

    /// Other objects that belong to this one: `(member, full name)`.
    pub(super) fn relations(&self, tree: &Tree) -> Vec<(&'static str, String)> {
        let target = |member: &'static str| {
            let named = names::resolve(&self.name, self.text(member)?);
            tree.objects.contains_key(&named).then_some((member, named))
        };
        RELATIONS.into_iter().filter_map(target).collect()
    }
}
