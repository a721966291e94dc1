//! A model of Ollama's store, made of a file.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::ServerError;
use crate::http::HttpClient;

/// What the names of models that dwell makes begin with.
const NAME_PREFIX: &str = "dwell-";
/// Digits of a file's hash in the name of its model.
const NAME_DIGITS: usize = 12;
const READ_BYTES: usize = 1 << 20;

/// Makes a model of a file, under a name that follows from its content, unless it is there. Gives its name, and that it
/// is one of dwell's.
pub(super) fn make_model(client: &HttpClient, file: &Path) -> Result<(String, bool), ServerError> {
    let hash = hash_of(file).map_err(|error| ServerError::Model { found: error.to_string(), path: file.to_owned() })?;
    let name = format!("{NAME_PREFIX}{}", &hash[..NAME_DIGITS]);
    if client.post_json::<Value>("/api/show", &json!({"model": name})).is_ok() {
        return Ok((name, true));
    }
    let digest = format!("sha256:{hash}");
    let blob = format!("/api/blobs/{digest}");
    if !client.has(&blob)? {
        client.post_file(&blob, file)?;
    }
    let body = json!({"model": name, "files": {"model.gguf": digest}, "stream": false});
    client.post_slow_json::<Value>("/api/create", &body)?;
    Ok((name, true))
}

fn hash_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; READ_BYTES];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
            count => hasher.update(&buffer[..count]),
        }
    }
}
