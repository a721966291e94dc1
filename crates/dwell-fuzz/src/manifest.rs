//! `manifest.json` of a run directory.

use dwell_store::Manifest;

use crate::scratch;

pub(crate) fn run(bytes: &[u8]) {
    scratch::file("manifest.json", bytes);
    let _ = Manifest::read(scratch::folder());
}
