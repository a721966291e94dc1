//! Names of region types, interned, so that rows carry a number.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use dwell_events::RegionType;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::AnalysisError;

/// Name of a region type as it stands in the trace. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RegionTypeName(Arc<str>);

impl RegionTypeName {
    /// The region type of this name; names outside the vocabulary are unknown memory.
    pub fn region_type(&self) -> RegionType {
        RegionType::from_name(&self.0).unwrap_or(RegionType::Unknown)
    }
}

impl From<&str> for RegionTypeName {
    fn from(name: &str) -> Self {
        Self(name.into())
    }
}

impl Deref for RegionTypeName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for RegionTypeName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl Serialize for RegionTypeName {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for RegionTypeName {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|name| Self(name.into()))
    }
}

/// Number of a name in [`RegionTypeNames`]; below [`KNOWN_TYPES`] it is the place in [`RegionType::ALL`].
pub(crate) type TypeIndex = u16;

/// How many names are ours.
pub(crate) const KNOWN_TYPES: usize = RegionType::ALL.len();

/// Every name seen so far, ours first.
pub(crate) struct RegionTypeNames(Vec<RegionTypeName>);

impl RegionTypeNames {
    /// A trace with more labels than this is not a labelled trace but a mistaken column.
    const LIMIT: usize = 1024;

    pub(crate) fn new() -> Self {
        Self(RegionType::ALL.iter().map(|known| known.name().into()).collect())
    }

    /// Number of the name; a null stands for memory that nobody attributed.
    pub(crate) fn intern(&mut self, name: Option<&str>) -> Result<TypeIndex, AnalysisError> {
        let name = name.unwrap_or(RegionType::Unknown.name());
        if let Some(index) = self.0.iter().position(|known| &**known == name) {
            return Ok(index as TypeIndex);
        }
        if self.0.len() == Self::LIMIT {
            return Err(AnalysisError::TooManyRegionTypes { limit: Self::LIMIT });
        }
        self.0.push(name.into());
        Ok((self.0.len() - 1) as TypeIndex)
    }

    /// The names by number.
    pub(crate) fn all(&self) -> &[RegionTypeName] {
        &self.0
    }
}

/// Place of a region type in [`RegionType::ALL`]; every name outside the vocabulary is unknown memory.
pub(crate) fn known_index(index: TypeIndex) -> usize {
    const UNKNOWN: usize = RegionType::Unknown as usize;
    let index = usize::from(index);
    if index < KNOWN_TYPES { index } else { UNKNOWN }
}
