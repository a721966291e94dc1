//! The types of elements.

use std::fmt;
use std::str::FromStr;

use dwell_events::Hint;

macro_rules! dtypes {
    ($($(#[$about:meta])* $variant:ident = $name:literal, $bytes:literal;)+) => {
        /// The type of a tensor's elements. Names are those of PyTorch; elements are little-endian.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum DType {
            $($(#[$about])* $variant,)+
        }

        impl DType {
            /// Every type.
            pub const ALL: &[DType] = &[$(DType::$variant),+];

            /// The name in files and options.
            pub fn name(self) -> &'static str {
                match self {
                    $(DType::$variant => $name,)+
                }
            }

            /// Bytes of one element.
            pub fn size_bytes(self) -> usize {
                match self {
                    $(DType::$variant => $bytes,)+
                }
            }
        }
    };
}

dtypes! {
    /// One byte, 0 or 1.
    Bool = "bool", 1;
    /// Unsigned, 8 bits.
    U8 = "uint8", 1;
    /// Signed, 8 bits.
    I8 = "int8", 1;
    /// Unsigned, 16 bits.
    U16 = "uint16", 2;
    /// Signed, 16 bits.
    I16 = "int16", 2;
    /// Unsigned, 32 bits.
    U32 = "uint32", 4;
    /// Signed, 32 bits.
    I32 = "int32", 4;
    /// Unsigned, 64 bits.
    U64 = "uint64", 8;
    /// Signed, 64 bits.
    I64 = "int64", 8;
    /// 8-bit float, 4 exponent bits, no infinities.
    F8E4M3Fn = "float8_e4m3fn", 1;
    /// The same with one zero and a shifted bias.
    F8E4M3Fnuz = "float8_e4m3fnuz", 1;
    /// 8-bit float, 5 exponent bits.
    F8E5M2 = "float8_e5m2", 1;
    /// The same with one zero and a shifted bias.
    F8E5M2Fnuz = "float8_e5m2fnuz", 1;
    /// A power of two, used as a scale.
    F8E8M0Fnu = "float8_e8m0fnu", 1;
    /// IEEE half precision.
    F16 = "float16", 2;
    /// The upper half of a single.
    Bf16 = "bfloat16", 2;
    /// IEEE single precision.
    F32 = "float32", 4;
    /// IEEE double precision.
    F64 = "float64", 8;
    /// Two singles.
    C64 = "complex64", 8;
    /// Two doubles.
    C128 = "complex128", 16;
}

impl DType {
    /// Bytes of the floats that elements consist of; `None` for integers.
    pub(crate) fn float_bytes(self) -> Option<usize> {
        match self {
            Self::F8E4M3Fn | Self::F8E4M3Fnuz | Self::F8E5M2 | Self::F8E5M2Fnuz | Self::F8E8M0Fnu => Some(1),
            Self::F16 | Self::Bf16 => Some(2),
            Self::F32 | Self::C64 => Some(4),
            Self::F64 | Self::C128 => Some(8),
            _ => None,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// A type that no tensor here has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("elements of type {name:?}, which dwell cannot store")]
pub struct UnknownDType {
    /// What was asked for.
    pub name: String,
}

impl Hint for UnknownDType {
    fn hints(&self) -> Vec<String> {
        let names: Vec<_> = DType::ALL.iter().map(|dtype| dtype.name()).collect();
        vec![format!("convert the tensor to one of: {}", names.join(", "))]
    }
}

impl FromStr for DType {
    type Err = UnknownDType;

    fn from_str(name: &str) -> Result<Self, UnknownDType> {
        let found = Self::ALL.iter().find(|dtype| dtype.name() == name);
        found.copied().ok_or_else(|| UnknownDType { name: name.to_owned() })
    }
}
