//! Lists the files of the page, so that each one that is built there is served.

use std::fmt::Write;
use std::path::Path;
use std::{env, fs};

type Outcome = Result<(), Box<dyn std::error::Error>>;

fn main() -> Outcome {
    let dist = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../web/dist");
    println!("cargo::rerun-if-changed={}", dist.display());
    let mut names: Vec<String> =
        fs::read_dir(&dist)?.flatten().filter_map(|entry| entry.file_name().into_string().ok()).collect();
    names.sort();
    let mut list = String::from("&[\n");
    for name in names {
        let path = dist.join(&name).canonicalize()?;
        writeln!(list, "    PageFile {{ name: {name:?}, content: include_bytes!({path:?}) }},")?;
    }
    list.push(']');
    fs::write(Path::new(&env::var("OUT_DIR")?).join("page_files.rs"), list)?;
    Ok(())
}
