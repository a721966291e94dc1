//! One byte of every element of a block, coded by its own statistics.

use crate::huffman::{
    Counts, DecodeTable, EncodeTable, code_lengths, count, decode_streams, encode_streams, entropy_bits, read_lengths,
    write_lengths,
};

/// Elements of a block. A block's planes stay in the L2 cache, and a stream's length fits into 16 bits.
pub(crate) const BLOCK_ELEMENTS: usize = 1 << 16;

const RAW: u8 = 0;
const CONSTANT: u8 = 1;
const HUFFMAN: u8 = 2;

/// About what a code's table and the lengths of its streams take.
const HUFFMAN_HEAD_BYTES: f64 = 40.0;

/// A plane is coded only if it gets this much smaller; less is not worth the time.
const LEAST_GAIN: f64 = 0.02;

/// Bytes looked at before a plane is counted, in runs.
const SAMPLE_RUNS: usize = 32;
const SAMPLE_RUN_LEN: usize = 64;

/// Appends a plane of at most [`BLOCK_ELEMENTS`] symbols.
pub(crate) fn encode_plane(symbols: &[u8], scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    if looks_random(symbols) {
        return raw(symbols, out);
    }
    let counts = count(symbols);
    match counts.iter().filter(|&&count| count > 0).count() {
        0 => raw(symbols, out),
        1 => out.extend([CONSTANT, symbols[0]]),
        _ => huffman(symbols, &counts, scratch, out),
    }
}

fn raw(symbols: &[u8], out: &mut Vec<u8>) {
    out.push(RAW);
    out.extend_from_slice(symbols);
}

fn huffman(symbols: &[u8], counts: &Counts, scratch: &mut Vec<u8>, out: &mut Vec<u8>) {
    let lengths = code_lengths(counts);
    let table = EncodeTable::new(lengths);
    if table.bits(counts) as f64 / 8.0 + HUFFMAN_HEAD_BYTES > symbols.len() as f64 * (1.0 - LEAST_GAIN) {
        return raw(symbols, out);
    }
    out.push(HUFFMAN);
    write_lengths(&lengths, out);
    encode_streams(&table, symbols, scratch, out);
}

/// Whether a sample shows too little to gain. False for what is too short to tell.
fn looks_random(symbols: &[u8]) -> bool {
    let step = symbols.len() / SAMPLE_RUNS;
    if step < SAMPLE_RUN_LEN {
        return false;
    }
    let mut sample = [0; SAMPLE_RUNS * SAMPLE_RUN_LEN];
    for (run, from) in sample.chunks_exact_mut(SAMPLE_RUN_LEN).zip(symbols.chunks_exact(step)) {
        run.copy_from_slice(&from[..SAMPLE_RUN_LEN]);
    }
    entropy_bits(&count(&sample)) > 8.0 * sample.len() as f64 * (1.0 - LEAST_GAIN)
}

/// Takes a plane from the front of `payload` and fills `out`; `None` if it does not fit.
pub(crate) fn decode_plane(payload: &mut &[u8], table: &mut DecodeTable, out: &mut [u8]) -> Option<()> {
    let (&kind, rest) = payload.split_first()?;
    *payload = rest;
    match kind {
        RAW => {
            let (symbols, rest) = rest.split_at_checked(out.len())?;
            out.copy_from_slice(symbols);
            *payload = rest;
        }
        CONSTANT => {
            let (&symbol, rest) = rest.split_first()?;
            out.fill(symbol);
            *payload = rest;
        }
        HUFFMAN => {
            table.fill(&read_lengths(payload)?);
            decode_streams(table, payload, out)?;
        }
        _ => return None,
    }
    Some(())
}
