//! Runs an experiment: every planned run, once, whatever interrupts it.

#![forbid(unsafe_code)]
