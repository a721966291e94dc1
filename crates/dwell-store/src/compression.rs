use parquet::basic::{Compression as Codec, GzipLevel, ZstdLevel};
use serde::{Deserialize, Serialize};

const ZSTD_LEVEL: i32 = 3;

/// How the pages of a table are compressed. Every reader of Parquet knows all of these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// Small and fast.
    #[default]
    Zstd,
    /// Faster, larger.
    Snappy,
    /// For readers without zstd.
    Gzip,
    /// Not at all.
    None,
}

impl Compression {
    /// Every choice.
    pub const ALL: [Self; 4] = [Self::Zstd, Self::Snappy, Self::Gzip, Self::None];

    /// As in configuration files.
    pub fn name(self) -> &'static str {
        match self {
            Self::Zstd => "zstd",
            Self::Snappy => "snappy",
            Self::Gzip => "gzip",
            Self::None => "none",
        }
    }

    pub(crate) fn codec(self) -> Codec {
        match self {
            Self::Zstd => Codec::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL).expect("3 is one of the levels of zstd, 1 to 22")),
            Self::Snappy => Codec::SNAPPY,
            Self::Gzip => Codec::GZIP(GzipLevel::default()),
            Self::None => Codec::UNCOMPRESSED,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_what_configuration_files_say() {
        for compression in Compression::ALL {
            let text = serde_json::to_string(&compression).unwrap();
            assert_eq!(text, format!("\"{}\"", compression.name()));
        }
    }
}
