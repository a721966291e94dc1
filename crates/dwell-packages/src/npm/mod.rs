//! Packages of an npm registry, reached the way npm is configured.
//!
//! ```text
//! NpmSettings (.npmrc, environment) ─▶ registry ─▶ archive, SHA-512 compared ─▶ plain files ─▶ cache, renamed when whole
//! ```

mod archive;
mod error;
mod inventory;
mod package;
mod rc_file;
mod settings;

pub use error::NpmError;
pub use package::NpmPackage;
pub use settings::NpmSettings;
