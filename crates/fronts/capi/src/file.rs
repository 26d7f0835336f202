//! One file: what is in it, and a part of a variable.

use std::{ffi::c_char, ptr, sync::Arc};

use forebay::{
    Array, Error, Opened, Result, Selection, Values,
    batch::{Arena, DL_FLAG_IS_COPIED, DLManagedTensorVersioned, FieldArray},
    container::cf::ValueKind,
    file_facts, open_file,
};

use crate::{
    border::{OutArg, TextArg, handle, owned_text, place},
    status::{OK, free, give, guard},
};

/// `forebay_file`: a file that stays open.
pub(crate) struct FileHandle {
    path: String,
    file: Opened,
}

impl FileHandle {
    fn read(&self, name: &str, selection: Option<&str>) -> Result<FieldArray> {
        let variable = self.file.variable(name)?;
        let shape = &variable.grid.shape;
        let chosen = selection.map_or(Ok(Selection::all(shape)), |text| Selection::parse(text, shape));
        let at = |error: Error| error.at(format!("variable '{name}'")).at(&self.path);
        let Array { dtype, shape, values } = self.file.read(variable, &chosen.map_err(at)?)?;
        let Values::Fixed(values) = values else {
            return Err(at(Error::unsupported("elements that differ in length are no tensor")));
        };
        // DLPack asks for aligned memory that is its own.
        let mut bytes = Arena::new(0).take(values.len())?;
        bytes.copy_from_slice(&values);
        let (name, kind) = (name.to_owned(), ValueKind::Number);
        Ok(FieldArray { name, dtype, kind, shape, bytes, offsets: None })
    }
}

/// Opens a file.
#[unsafe(no_mangle)]
extern "C" fn forebay_file_open(path: TextArg, file: OutArg<'_, Option<Box<FileHandle>>>) -> i32 {
    give(file, "file", || {
        let path = path.path("path")?;
        let file = open_file(&path)?;
        Ok(FileHandle { path, file })
    })
}

/// What is in the file, as JSON.
#[unsafe(no_mangle)]
extern "C" fn forebay_file_describe(file: Option<&FileHandle>, json: OutArg<'_, *mut c_char>) -> i32 {
    guard(|| {
        let file = handle(file, "file")?;
        place(json, "json")?.write(owned_text(file_facts(&file.path, file.file.container())));
        Ok(OK)
    })
}

/// A part of a variable, such as `0:10,:,3`, or all of it, as a tensor of its own.
#[unsafe(no_mangle)]
extern "C" fn forebay_file_read(
    file: Option<&FileHandle>,
    variable: TextArg,
    selection: TextArg,
    tensor: OutArg<'_, *mut DLManagedTensorVersioned>,
) -> i32 {
    guard(|| {
        let tensor = place(tensor, "tensor")?.write(ptr::null_mut());
        let selection = selection.text("selection")?;
        let read = handle(file, "file")?.read(variable.required("variable")?, selection)?;
        *tensor = Arc::new(read).to_dlpack_versioned(DL_FLAG_IS_COPIED)?.as_ptr();
        Ok(OK)
    })
}

/// Closes the file; tensors of it stay. NULL is left alone.
#[unsafe(no_mangle)]
extern "C" fn forebay_file_free(file: Option<Box<FileHandle>>) {
    free(file);
}
