//! Values that several commands take.

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, TypedValueParser};

/// A value of the vocabulary, by its name.
pub(crate) fn one_of<T: Clone + Send + Sync + 'static>(
    names: &'static [&'static str],
    from_name: fn(&str) -> Option<T>,
) -> impl TypedValueParser<Value = T> {
    PossibleValuesParser::new(names).try_map(move |name| from_name(&name).ok_or("it is not known"))
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    On,
    Off,
}

impl Switch {
    pub(crate) fn is_on(self) -> bool {
        self == Switch::On
    }
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum AutoSwitch {
    Auto,
    On,
    Off,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum EngineArg {
    #[value(name = "llama_cpp")]
    LlamaCpp,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum CollectorArg {
    #[value(name = "tensor_ops")]
    TensorOps,
    #[value(name = "process")]
    Process,
}
