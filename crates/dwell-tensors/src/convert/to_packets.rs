//! To a packet file: `!HI` (length of the name, length of the data, big-endian), name, data.

use std::borrow::Cow;
use std::io::Write;
use std::path::Path;

use dwell_codec::DType;
use dwell_files::AtomicFile;
use half::f16;

use super::packet_codec::PacketCodec;
use super::sidecar::{PacketShape, SIDECAR_VERSION, Sidecar, sidecar_path};
use crate::elements::for_each_number;
use crate::{PacketEntry, TensorFile, TensorsError};

/// How a packet file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketOptions {
    /// How packets are compressed.
    pub codec: PacketCodec,
    /// Whether every number becomes a float16, which is what readers of such files take them for.
    pub as_float16: bool,
}

/// Writes every tensor of a stream as a packet, and a sidecar with their types and shapes. The result is how many.
pub fn to_packets(file: &TensorFile, path: &Path, options: PacketOptions) -> Result<u64, TensorsError> {
    let action = "writing a packet file";
    let mut out = AtomicFile::create(path)?;
    let mut shapes = Vec::with_capacity(file.packets().len());
    for (place, entry) in file.packets().iter().enumerate() {
        let misfit = |reason: String| TensorsError::Unconvertible {
            name: file.name(entry).to_owned(),
            packet: entry.packet,
            reason,
        };
        let mut elements = file.read_elements(place)?;
        if options.as_float16 {
            elements = as_float16(entry.dtype, &elements).map_err(misfit)?;
        }
        let data = options.codec.pack(&elements).map_err(|error| TensorsError::from_io(action, path, error))?;
        let head = packet_head(file.name(entry), data.len()).map_err(misfit)?;
        let parts = [head.as_slice(), file.name(entry).as_bytes(), &data];
        let written = parts.into_iter().try_for_each(|part| out.write_all(part));
        written.map_err(|error| TensorsError::from_io(action, path, error))?;
        shapes.push(packet_shape(file, entry, options.as_float16));
    }
    write_sidecar(file, &sidecar_path(path), options.codec, shapes)?;
    out.commit()?;
    Ok(file.packets().len() as u64)
}

fn packet_head(name: &str, data_bytes: usize) -> Result<[u8; 6], String> {
    let name_bytes = u16::try_from(name.len());
    let [high, low] = name_bytes.map_err(|_| format!("a name of {} bytes, and 65535 fit", name.len()))?.to_be_bytes();
    let data_bytes = u32::try_from(data_bytes).map_err(|_| format!("{data_bytes} bytes of data, and 4 GiB - 1 fit"))?;
    let [first, second, third, fourth] = data_bytes.to_be_bytes();
    Ok([high, low, first, second, third, fourth])
}

fn as_float16(dtype: DType, elements: &[u8]) -> Result<Vec<u8>, String> {
    if matches!(dtype, DType::C64 | DType::C128) {
        return Err(format!("{dtype}, which is no float16"));
    }
    if dtype == DType::F16 {
        return Ok(elements.to_vec());
    }
    let mut halves = Vec::with_capacity(elements.len());
    for_each_number(dtype, elements, |number| halves.extend_from_slice(&f16::from_f64(number).to_le_bytes()));
    Ok(halves)
}

fn packet_shape<'a>(file: &'a TensorFile, entry: &PacketEntry, as_float16: bool) -> PacketShape<'a> {
    let dtype = if as_float16 { DType::F16 } else { entry.dtype };
    PacketShape {
        packet: entry.packet,
        dtype: Cow::Borrowed(dtype.name()),
        shape: Cow::Borrowed(file.shape(entry)),
        step: entry.step,
        token_index: entry.token_index,
        layer: entry.layer,
        timestamp_ns: entry.timestamp_ns,
    }
}

fn write_sidecar(
    file: &TensorFile,
    path: &Path,
    codec: PacketCodec,
    packets: Vec<PacketShape<'_>>,
) -> Result<(), TensorsError> {
    let tokens = Cow::Borrowed(file.tokens());
    let sidecar = Sidecar { version: SIDECAR_VERSION, codec: Cow::Borrowed(codec.name()), packets, tokens };
    let mut out = AtomicFile::create(path)?;
    let failed = |error| TensorsError::from_io("writing the shapes of a packet file", path, error);
    serde_json::to_writer(&mut out, &sidecar).map_err(|error| failed(error.into()))?;
    out.write_all(b"\n").map_err(failed)?;
    Ok(out.commit()?)
}
