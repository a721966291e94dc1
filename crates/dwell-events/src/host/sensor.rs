use serde::{Deserialize, Serialize};

/// Something that this machine may not tell.
///
/// In JSON it is the value itself, or `{"not_available": "the reason"}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Sensor<T> {
    // First: a value all of whose fields may be missing would take any object for itself.
    /// It cannot be known here.
    NotAvailable {
        /// Why, in words.
        #[serde(rename = "not_available")]
        reason: String,
    },
    /// What was read.
    Available(T),
}

impl<T> Sensor<T> {
    /// Not known, for this reason.
    pub fn not_available(reason: impl Into<String>) -> Self {
        Self::NotAvailable { reason: reason.into() }
    }

    /// The value, if there is one, and else the reason.
    pub fn from_option(value: Option<T>, reason: impl Into<String>) -> Self {
        value.map_or_else(|| Self::not_available(reason), Self::Available)
    }

    /// The value.
    pub fn available(&self) -> Option<&T> {
        match self {
            Self::Available(value) => Some(value),
            Self::NotAvailable { .. } => None,
        }
    }

    /// Why there is no value.
    pub fn reason(&self) -> Option<&str> {
        match self {
            Self::Available(_) => None,
            Self::NotAvailable { reason } => Some(reason),
        }
    }

    /// The same with another value.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> Sensor<U> {
        match self {
            Self::Available(value) => Sensor::Available(change(value)),
            Self::NotAvailable { reason } => Sensor::NotAvailable { reason },
        }
    }
}

/// What a record says that was written before the thing was asked for.
impl<T> Default for Sensor<T> {
    fn default() -> Self {
        Self::not_available("not recorded")
    }
}

impl<T> From<Result<T, String>> for Sensor<T> {
    fn from(result: Result<T, String>) -> Self {
        result.map_or_else(Self::not_available, Self::Available)
    }
}
