//! Images with two journals: the program that renamed them was killed in the midst.
//!
//! A rename gives the image a second journal and a second link in the area, has the new name lead to that, and then takes the first ones away. Both journals are
//! acted upon otherwise, and `x.tmp` appears beside `x`. The newer journal counts, as what had the new name before may be gone; but where the folder that it
//! leads to is not there, a folder was about to be renamed, and was not.

use std::{os::unix::fs::MetadataExt, path::Path};

use forebay_scratch::OwnFolder;

use crate::{
    program_image::open_image,
    survey::{item_ids, read_journal},
};

/// The items in `folder` that have the image of `id`, itself among them, the one that counts first. Asked while nobody renames there: programs are gone, or
/// names are locked.
pub(crate) fn items_of_image(folder: &OwnFolder, id: &str) -> Vec<String> {
    let image = |id: &str| open_image(folder, id).ok()?.metadata().ok();
    let Some(own) = image(id).filter(|facts| facts.nlink() > 1) else { return vec![id.to_owned()] };
    let is_same = |other: &String| {
        image(other).is_some_and(|other| (other.dev(), other.ino()) == (own.dev(), own.ino()))
    };
    let rank = |id: String| {
        let journal = read_journal(folder, &id).ok()?;
        let has_folder = journal.destination().parent().is_some_and(Path::is_dir);
        Some((has_folder, journal.created_ns, id))
    };
    let mut ranked: Vec<_> = item_ids(folder).into_iter().filter(is_same).filter_map(rank).collect();
    ranked.sort();
    ranked.into_iter().rev().map(|(_, _, id)| id).collect()
}

/// Whether another item with the image of `id` counts in its place.
pub(crate) fn is_replaced(folder: &OwnFolder, id: &str) -> bool {
    items_of_image(folder, id).first().is_some_and(|first| first != id)
}
