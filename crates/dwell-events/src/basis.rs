use crate::choices;

choices! {
    /// How a figure was obtained, from the strongest to the weakest. The weakest of what went into a figure is the basis
    /// of the figure.
    Basis {
        /// Every access or event was seen, or the file says it.
        Exact = "exact",
        /// Accesses are known to the page.
        Page = "page",
        /// Only one access in `period` was seen, one moment in an interval, or the trace does not say how many.
        Sampled = "sampled",
        /// The program that is watched says so itself.
        Reported = "reported",
        /// Something that was not seen was concluded: a store before the trace began, times between two reads, the size
        /// of a cache from the shape of the model.
        Inferred = "inferred",
    }
}

#[expect(clippy::derivable_impls, reason = "the list of choices has no place for it")]
impl Default for Basis {
    fn default() -> Self {
        Basis::Exact
    }
}
