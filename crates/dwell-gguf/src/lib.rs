//! GGUF model files: what is in them, how much memory they need, and small ones made from a seed.
//!
//! [`GgufFile`] reads the header of a file without its weights. [`ModelShape`] turns its metadata into layers,
//! heads and rows, from which the sizes of the KV cache follow; [`ModelInfo`] is all of that as a report.
//! [`make()`] writes a model of a given [`MakeSpec`] with random weights, byte for byte the same for the same seed.

#![forbid(unsafe_code)]

mod cursor;
mod error;
mod ggml_type;
mod info;
mod info_report;
mod kept_memory;
mod make;
mod make_plan;
mod make_spec;
mod memory;
mod model_shape;
mod quantize;
mod random;
mod reader;
mod shape_error;
mod spec_error;
#[cfg(feature = "testing")]
pub mod testing;
mod tokenizer;
mod value;
mod window_pattern;
mod writer;

pub use error::{GgufError, GgufErrorKind};
pub use ggml_type::GgmlType;
pub use info::{InfoOptions, KvBytesPerToken, ModelInfo, TensorLine, TypeTotal};
pub use make::{MakeError, Overwrite, make, make_staged};
pub use make_plan::{MakePlan, TensorPlan};
pub use make_spec::{MakeArchitecture, MakeSpec, WeightType};
pub use memory::{MemoryNeeded, MemoryRequest};
pub use model_shape::{LayerShape, ModelShape};
pub use reader::{GgufFile, TensorInfo};
pub use shape_error::ShapeError;
pub use spec_error::SpecError;
pub use value::{MetadataArray, MetadataValue, ValueType};
