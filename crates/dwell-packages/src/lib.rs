//! What package registries carry, reached the way their own tools are configured.
//!
//! [`PipSettings`] reads pip's configuration files and environment, so that a mirror, a proxy, a private certificate
//! or a folder of wheels that is set up for pip works here too. [`fetch`] finds the wheel on an index page (PEP 503 or
//! 691), downloads it, compares its SHA-256 with the one that the index states, and takes one file out of it.
//!
//! [`npm`] does the same for npm: [`npm::NpmSettings`] reads `.npmrc` files and the environment, and
//! [`npm::NpmPackage::fetch`] downloads one version of a package, compares its SHA-512 with one that is written in the code, and
//! unpacks it into a cache.
//!
//! Neither Python nor Node is needed, and no code of a package runs. Not read: `.netrc`, keyrings and client certificates.
//! Source distributions are never taken.

#![forbid(unsafe_code)]

mod address;
mod connections;
mod content;
mod download;
mod error;
mod fetch;
mod index;
pub mod npm;
mod settings;
mod wheel;

pub use error::PackageError;
pub use fetch::{PackagedFile, fetch};
pub use settings::PipSettings;
