//! From a tree of runs to what is published: aggregates, figures, datasets.

#![forbid(unsafe_code)]
