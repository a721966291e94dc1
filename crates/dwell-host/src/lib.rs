//! The machine: what it is, what it does meanwhile, and what can be observed on it.

#![forbid(unsafe_code)]
