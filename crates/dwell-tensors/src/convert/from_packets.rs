//! From a packet file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use dwell_codec::{Codec, DType, Encoder};
use dwell_files::{TEXT_MAX_BYTES, read_at_most};
use serde::Serialize;

use super::StreamCopy;
use super::packet_codec::PacketCodec;
use super::sidecar::{PacketShape, SIDECAR_VERSION, Sidecar, sidecar_path};
use crate::container::{MAX_DIMENSIONS, MAX_TEXT_BYTES, Row, RowWriter};
use crate::{TensorHead, TensorsError};

/// Bytes before the name of a packet.
const HEAD_BYTES: usize = 6;

/// What [`from_packets`] did.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FromPackets {
    /// Packets that were read.
    pub packets: u64,
    /// Bytes at the end of the file that are no whole packet.
    pub torn_bytes: u64,
    /// Packets that the sidecar tells of and the file does not have.
    pub missing_packets: u64,
    /// Where types and shapes came from; without it every tensor is flat.
    pub sidecar: Option<PathBuf>,
}

/// Writes a packet file as a stream. `packet_codec` and `dtype` are needed where there is no sidecar; the types and
/// shapes of a sidecar count otherwise.
pub fn from_packets(
    packets: &Path,
    stream: &Path,
    packet_codec: Option<PacketCodec>,
    dtype: DType,
    codec: Codec,
) -> Result<FromPackets, TensorsError> {
    let sidecar_path = sidecar_path(packets);
    let sidecar = read_sidecar(&sidecar_path)?;
    let told = sidecar.as_ref().map(|sidecar| told_codec(sidecar, &sidecar_path)).transpose()?;
    let packet_codec = packet_codec.or(told).unwrap_or(PacketCodec::None);
    let mut reader = PacketReader::open(packets)?;
    let writer = RowWriter::create(stream, &BTreeMap::new())?;
    let mut copy = StreamCopy { writer, encoder: Encoder::default(), codec };
    let mut tokens = sidecar.iter().flat_map(|sidecar| sidecar.tokens.iter()).peekable();
    while let Some(packet) = reader.next()? {
        let unfit = |reason: String| reader.unfit(&packet, reason);
        let shape = match &sidecar {
            Some(sidecar) => {
                let shape = sidecar.packets.get(packet.number as usize);
                Some(shape.ok_or_else(|| unfit("a packet that the sidecar does not have".to_owned()))?)
            }
            None => None,
        };
        let (number, head, elements) = tensor_of(&packet, shape, packet_codec, dtype).map_err(unfit)?;
        while let Some(mark) = tokens.next_if(|mark| mark.packet <= number) {
            copy.writer.push(Row::Token(mark.clone()), &[])?;
        }
        copy.push(number, head, &elements, None)?;
    }
    if reader.number == 0 && reader.torn_bytes > 0 && sidecar.is_none() {
        return Err(reader.no_packets());
    }
    for mark in tokens {
        copy.writer.push(Row::Token(mark.clone()), &[])?;
    }
    copy.writer.finish()?;
    let told_packets = sidecar.as_ref().map_or(0, |sidecar| sidecar.packets.len() as u64);
    Ok(FromPackets {
        packets: reader.number,
        torn_bytes: reader.torn_bytes,
        missing_packets: told_packets.saturating_sub(reader.number),
        sidecar: sidecar.map(|_| sidecar_path),
    })
}

/// The tensor that a packet holds, with its number.
fn tensor_of(
    packet: &Packet,
    shape: Option<&PacketShape<'_>>,
    codec: PacketCodec,
    dtype: DType,
) -> Result<(u64, TensorHead, Vec<u8>), String> {
    let mut head = TensorHead {
        name: packet.name.clone(),
        layer: None,
        step: 0,
        token_index: None,
        timestamp_ns: 0,
        dtype,
        shape: Vec::new(),
    };
    let Some(shape) = shape else {
        let elements = codec.unpack(&packet.data, None)?;
        if elements.len() % dtype.size_bytes() != 0 {
            return Err(format!("{} bytes of elements, which are no {dtype}", elements.len()));
        }
        head.shape = vec![(elements.len() / dtype.size_bytes()) as u64];
        return Ok((packet.number, head, elements));
    };
    head.dtype = shape.dtype.parse().map_err(|error| format!("{error}"))?;
    head.shape = shape.shape.to_vec();
    (head.layer, head.step, head.token_index) = (shape.layer, shape.step, shape.token_index);
    head.timestamp_ns = shape.timestamp_ns;
    let raw_bytes = head.raw_bytes().filter(|_| head.shape.len() <= MAX_DIMENSIONS);
    let raw_bytes = raw_bytes.ok_or_else(|| format!("the shape {:?}, which no tensor can have", head.shape))?;
    let elements = codec.unpack(&packet.data, Some(raw_bytes))?;
    Ok((shape.packet, head, elements))
}

fn read_sidecar(path: &Path) -> Result<Option<Sidecar<'static>>, TensorsError> {
    let unfit = |reason: String| TensorsError::UnfitSidecar { reason, path: path.to_path_buf() };
    let bytes = match read_at_most(path, TEXT_MAX_BYTES) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(TensorsError::from_io("reading the shapes of a packet file", path, error)),
    };
    let sidecar: Sidecar<'static> = serde_json::from_slice(&bytes).map_err(|error| unfit(error.to_string()))?;
    if sidecar.version != SIDECAR_VERSION {
        return Err(unfit(format!("version {}, and {SIDECAR_VERSION} is needed", sidecar.version)));
    }
    if let Some(mark) = sidecar.tokens.iter().find(|mark| mark.token_text.len() > MAX_TEXT_BYTES) {
        let length = mark.token_text.len();
        return Err(unfit(format!("a token's text of {length} bytes, and at most {MAX_TEXT_BYTES} are possible")));
    }
    Ok(Some(sidecar))
}

fn told_codec(sidecar: &Sidecar<'_>, path: &Path) -> Result<PacketCodec, TensorsError> {
    let reason = || format!("the codec {:?}, and one of {} is needed", sidecar.codec, PacketCodec::NAMES.join(", "));
    PacketCodec::from_name(&sidecar.codec)
        .ok_or_else(|| TensorsError::UnfitSidecar { reason: reason(), path: path.to_path_buf() })
}

struct Packet {
    number: u64,
    offset: u64,
    name: String,
    data: Vec<u8>,
}

struct PacketReader {
    file: BufReader<File>,
    path: PathBuf,
    left_bytes: u64,
    offset: u64,
    /// Packets read.
    number: u64,
    torn_bytes: u64,
}

impl PacketReader {
    fn open(path: &Path) -> Result<Self, TensorsError> {
        let failed = |error| TensorsError::from_io("opening a packet file", path, error);
        let file = File::open(path).map_err(failed)?;
        let left_bytes = file.metadata().map_err(failed)?.len();
        Ok(Self {
            file: BufReader::new(file),
            path: path.to_path_buf(),
            left_bytes,
            offset: 0,
            number: 0,
            torn_bytes: 0,
        })
    }

    /// The next packet; `None` where no whole one follows.
    fn next(&mut self) -> Result<Option<Packet>, TensorsError> {
        if self.left_bytes < HEAD_BYTES as u64 {
            return Ok(self.end());
        }
        let head: [u8; HEAD_BYTES] = self.read(HEAD_BYTES)?.try_into().unwrap_or_default();
        let [high, low, first, second, third, fourth] = head;
        let name_bytes = usize::from(u16::from_be_bytes([high, low]));
        let data_bytes = u32::from_be_bytes([first, second, third, fourth]) as usize;
        let packet_bytes = (HEAD_BYTES + name_bytes + data_bytes) as u64;
        if packet_bytes > self.left_bytes {
            return Ok(self.end());
        }
        let name = self.read(name_bytes)?;
        let data = self.read(data_bytes)?;
        let mut packet = Packet { number: self.number, offset: self.offset, name: String::new(), data };
        packet.name = String::from_utf8(name).map_err(|_| self.unfit(&packet, "a name that is no UTF-8".to_owned()))?;
        self.number += 1;
        self.offset += packet_bytes;
        self.left_bytes -= packet_bytes;
        Ok(Some(packet))
    }

    fn end(&mut self) -> Option<Packet> {
        self.torn_bytes = self.left_bytes;
        None
    }

    fn read(&mut self, length: usize) -> Result<Vec<u8>, TensorsError> {
        let mut bytes = vec![0; length];
        let read = self.file.read_exact(&mut bytes);
        read.map_err(|error| TensorsError::from_io("reading a packet file", &self.path, error))?;
        Ok(bytes)
    }

    /// The file is something else, or its first packet was cut off.
    fn no_packets(&self) -> TensorsError {
        let reason = "neither an Arrow IPC stream nor a whole packet".to_owned();
        TensorsError::NotAStream { reason, path: self.path.clone() }
    }

    fn unfit(&self, packet: &Packet, reason: String) -> TensorsError {
        TensorsError::UnfitPacketFile {
            packet: packet.number,
            offset_bytes: packet.offset,
            reason,
            path: self.path.clone(),
        }
    }
}
