//! Records that perf itself adds to those of the kernel, as they stand in a recording that goes through a pipe.

use dwell_decode::perf_data::BuildId;
use dwell_pages::Mapping;
use dwell_perf::Attributes;

/// Process and thread, time, processor and number of the event: the fields of samples that other records end with.
const TRAILER_BYTES: usize = 32;

const MMAP2: u32 = 10;
const LOST_SAMPLES: u32 = 13;
const HEADER_ATTR: u32 = 64;
const FINISHED_ROUND: u32 = 68;
const EVENT_UPDATE: u32 = 78;

const USER: u16 = 2;
const HAS_BUILD_ID: u16 = 1 << 14;
/// Build id of a file with its length, or device and inode.
const IDENTITY_BYTES: usize = 24;
/// What perf calls memory without a file.
const ANONYMOUS: &str = "//anon";

/// How a recording begins.
pub(super) fn head() -> Vec<u8> {
    let mut head = b"PERFILE2".to_vec();
    head.extend(16_u64.to_ne_bytes());
    head
}

/// An event, and the numbers that its samples state.
pub(super) fn event(name: &str, attributes: &Attributes, ids: &[u64]) -> Vec<u8> {
    let mut body = attributes.to_bytes().to_vec();
    body.extend(ids.iter().flat_map(|id| id.to_ne_bytes()));
    let mut records = record(HEADER_ATTR, 0, &body);
    for id in ids {
        const NAME: u64 = 2;
        let mut body = [NAME, *id].iter().flat_map(|word| word.to_ne_bytes()).collect();
        push_text(&mut body, name);
        records.extend(record(EVENT_UPDATE, 0, &body));
    }
    records
}

/// Memory that a process has mapped since before it was watched.
pub(super) fn mapping(pid: u32, mapping: &Mapping, build_id: Option<BuildId>, time_ns: u64, id: u64) -> Vec<u8> {
    let mut body = Vec::new();
    put(&mut body, &[u64::from(pid) | u64::from(pid) << 32]);
    put(&mut body, &[mapping.range.start, mapping.range.end - mapping.range.start, mapping.file_offset]);
    let mut identity = [0; IDENTITY_BYTES];
    if let Some(build_id) = build_id {
        identity[0] = build_id.bytes().len() as u8;
        identity[4..4 + build_id.bytes().len()].copy_from_slice(build_id.bytes());
    }
    body.extend(identity);
    // Protection and flags, which nobody reads.
    put(&mut body, &[0]);
    push_text(&mut body, if mapping.name.is_empty() { ANONYMOUS } else { &mapping.name });
    push_trailer(&mut body, pid, time_ns, id);
    record(MMAP2, if build_id.is_some() { USER | HAS_BUILD_ID } else { USER }, &body)
}

/// So many records found no room.
pub(super) fn lost_samples(count: u64, time_ns: u64, id: u64) -> Vec<u8> {
    let mut body = count.to_ne_bytes().to_vec();
    push_trailer(&mut body, 0, time_ns, id);
    record(LOST_SAMPLES, 0, &body)
}

/// Every ring was emptied once.
pub(super) fn round_ends() -> Vec<u8> {
    record(FINISHED_ROUND, 0, &[])
}

fn record(kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
    let size = u16::try_from(8 + body.len()).expect("names of files are short, and events have few numbers");
    let mut record = kind.to_ne_bytes().to_vec();
    record.extend(misc.to_ne_bytes());
    record.extend(size.to_ne_bytes());
    record.extend(body);
    record
}

fn put(body: &mut Vec<u8>, words: &[u64]) {
    body.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
}

/// A text with a zero behind it, to a multiple of 8 bytes.
fn push_text(body: &mut Vec<u8>, text: &str) {
    let text = &text.as_bytes()[..text.len().min(4095)];
    body.extend(text);
    body.resize((body.len() + 1).next_multiple_of(8), 0);
}

fn push_trailer(body: &mut Vec<u8>, pid: u32, time_ns: u64, id: u64) {
    let begin = body.len();
    put(body, &[u64::from(pid) | u64::from(pid) << 32, time_ns, 0, id]);
    debug_assert_eq!(body.len() - begin, TRAILER_BYTES);
}
