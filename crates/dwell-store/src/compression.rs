use dwell_events::Compression;
use parquet::basic::{Compression as Codec, GzipLevel, ZstdLevel};

const ZSTD_LEVEL: i32 = 3;
/// Samples repeat little beyond what their encodings take out: looking longer makes their tables hardly smaller.
const ZSTD_LEVEL_OF_SAMPLES: i32 = 1;

/// What Parquet calls a way of compressing.
pub(crate) fn codec(compression: Compression) -> Codec {
    match compression {
        Compression::Zstd => zstd(ZSTD_LEVEL),
        Compression::Snappy => Codec::SNAPPY,
        Compression::Gzip => Codec::GZIP(GzipLevel::default()),
        Compression::None => Codec::UNCOMPRESSED,
    }
}

/// How tables of sampled rows are compressed.
pub(crate) fn codec_of_samples() -> Codec {
    zstd(ZSTD_LEVEL_OF_SAMPLES)
}

fn zstd(level: i32) -> Codec {
    Codec::ZSTD(ZstdLevel::try_new(level).expect("levels of zstd go from 1 to 22"))
}
