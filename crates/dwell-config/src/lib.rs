//! An experiment as a file: schema, checks, translation from mrm-trace, the list of runs. No I/O.

#![forbid(unsafe_code)]
