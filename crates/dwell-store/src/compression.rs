use dwell_events::Compression;
use parquet::basic::{Compression as Codec, GzipLevel, ZstdLevel};

const ZSTD_LEVEL: i32 = 3;

/// What Parquet calls a way of compressing.
pub(crate) fn codec(compression: Compression) -> Codec {
    match compression {
        Compression::Zstd => {
            Codec::ZSTD(ZstdLevel::try_new(ZSTD_LEVEL).expect("3 is one of the levels of zstd, 1 to 22"))
        }
        Compression::Snappy => Codec::SNAPPY,
        Compression::Gzip => Codec::GZIP(GzipLevel::default()),
        Compression::None => Codec::UNCOMPRESSED,
    }
}
