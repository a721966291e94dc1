//! The model's file, looked at before a program is started for it.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use crate::ServerError;

/// What a GGUF file begins with.
const MAGIC: &[u8; 4] = b"GGUF";

/// An error that says what is wrong, rather than the last words of a program that could not load it.
pub(crate) fn check_model_file(path: &Path) -> Result<(), ServerError> {
    let wrong = |found: String| ServerError::Model { found, path: path.to_owned() };
    let mut file = File::open(path).map_err(|error| wrong(what(&error)))?;
    let metadata = file.metadata().map_err(|error| wrong(error.to_string()))?;
    if metadata.is_dir() {
        return Err(wrong("found a folder".to_owned()));
    }
    let mut begin = [0; 4];
    file.read_exact(&mut begin).map_err(|error| wrong(what(&error)))?;
    match &begin == MAGIC {
        true => Ok(()),
        false => Err(wrong(format!("it begins with \"{}\"", begin.escape_ascii()))),
    }
}

fn what(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => "nothing is there".to_owned(),
        io::ErrorKind::UnexpectedEof => "it is shorter than 4 bytes".to_owned(),
        _ => error.to_string(),
    }
}
