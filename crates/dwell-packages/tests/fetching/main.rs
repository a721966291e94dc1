//! Packages from registries and folders, whole or not at all.

#![allow(clippy::unwrap_used, reason = "a step that fails is a test that fails")]

mod npm;
mod registry;
mod wheels;
