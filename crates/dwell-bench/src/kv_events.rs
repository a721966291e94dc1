//! Decoding of KV cache events on one core, beside a plain copy of the same bytes.

use anyhow::Context;
use dwell_kv_events::{BlockTracker, TokenPolicy, TrackOptions, decode_batch};
use dwell_store::ClockAnchor;

use crate::report::{Report, median};
use crate::trial::thread_s;

/// Events of a batch, and batches of a round.
const EVENTS: u32 = 200;
const BATCHES: u32 = 5_000;
const ROUNDS: u32 = 5;
const LEAST_EVENTS_PER_S: f64 = 1e6;

/// Blocks of 16 tokens, stored one by one, each the parent of the next: what a server publishes while it decodes.
struct Batch {
    form: &'static str,
    payload: Vec<u8>,
}

/// Measures, and holds the figures against their bar.
pub(crate) fn measure(report: &mut Report) -> anyhow::Result<()> {
    let batches = [
        Batch { form: "array", payload: payload(false).context("encoding a batch")? },
        Batch { form: "map", payload: payload(true).context("encoding a batch")? },
    ];
    let mut text =
        "## kv_events\n\n| encoding | events/s | into lives, events/s | MB/s | part of the speed of a copy |\n\
                    | --- | --- | --- | --- | --- |\n"
            .to_owned();
    for batch in &batches {
        let mut rates = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..ROUNDS {
            let seconds = [decode_s(batch)?, lives_s(batch)?, copy_s(batch)];
            for ((mode, seconds), rates) in ["decode", "lives", "copy"].iter().zip(seconds).zip(&mut rates) {
                let events_per_s = f64::from(EVENTS * BATCHES) / seconds;
                report.raw("kv_events", round, &format!("{}-{mode}", batch.form), "events_per_s", events_per_s)?;
                rates.push(events_per_s);
            }
        }
        let [decode, lives, copy] = rates.map(|rates| median(&rates));
        let mb_per_s = decode * batch.payload.len() as f64 / f64::from(EVENTS) / 1e6;
        text += &format!("| {} | {decode:.3e} | {lives:.3e} | {mb_per_s:.0} | {:.3} |\n", batch.form, decode / copy);
        if decode < LEAST_EVENTS_PER_S {
            report.missed_bar(format!("KV events as {} are decoded at {decode:.3e} events/s", batch.form));
        }
    }
    report.section(&text);
    Ok(())
}

fn decode_s(batch: &Batch) -> anyhow::Result<f64> {
    let begin_s = thread_s();
    for _ in 0..BATCHES {
        std::hint::black_box(decode_batch(std::hint::black_box(&batch.payload))?);
    }
    Ok(thread_s() - begin_s)
}

/// The same, and what the events say of the blocks. All but the first batch report blocks that are there already.
fn lives_s(batch: &Batch) -> anyhow::Result<f64> {
    let clock = ClockAnchor { monotonic_ns: 0, unix_ns: 0 };
    let tokens = TokenPolicy::Hash { salt: Vec::new() };
    let mut tracker = BlockTracker::new(TrackOptions { clock, kv_bytes_per_token: None, tokens });
    let begin_s = thread_s();
    for _ in 0..BATCHES {
        tracker.apply(&decode_batch(std::hint::black_box(&batch.payload))?);
    }
    Ok(thread_s() - begin_s)
}

fn copy_s(batch: &Batch) -> f64 {
    let mut target = vec![0; batch.payload.len()];
    let begin_s = thread_s();
    for _ in 0..BATCHES {
        target.copy_from_slice(std::hint::black_box(&batch.payload));
        std::hint::black_box(&target);
    }
    thread_s() - begin_s
}

fn payload(is_map: bool) -> Result<Vec<u8>, rmp::encode::ValueWriteError> {
    let mut out = Vec::new();
    rmp::encode::write_array_len(&mut out, 2)?;
    rmp::encode::write_f64(&mut out, 1.7e9)?;
    rmp::encode::write_array_len(&mut out, EVENTS)?;
    for event in 0..EVENTS {
        put_event(&mut out, is_map, i64::from(event).wrapping_mul(0x5851_f42d_4c95_7f2d))?;
    }
    Ok(out)
}

fn put_event(out: &mut Vec<u8>, is_map: bool, hash: i64) -> Result<(), rmp::encode::ValueWriteError> {
    let name = |out: &mut Vec<u8>, name: &str| if is_map { rmp::encode::write_str(out, name) } else { Ok(()) };
    if is_map {
        rmp::encode::write_map_len(out, 7)?;
    } else {
        rmp::encode::write_array_len(out, 7)?;
    }
    name(out, "type")?;
    rmp::encode::write_str(out, "BlockStored")?;
    name(out, "block_hashes")?;
    rmp::encode::write_array_len(out, 1)?;
    rmp::encode::write_sint(out, hash)?;
    name(out, "parent_block_hash")?;
    rmp::encode::write_sint(out, hash.wrapping_sub(0x5851_f42d_4c95_7f2d))?;
    name(out, "token_ids")?;
    rmp::encode::write_array_len(out, 16)?;
    for token in 0..16 {
        rmp::encode::write_sint(out, 300 + 1000 * token)?;
    }
    name(out, "block_size")?;
    rmp::encode::write_sint(out, 16)?;
    name(out, "lora_id")?;
    rmp::encode::write_nil(out).map_err(rmp::encode::ValueWriteError::InvalidMarkerWrite)?;
    name(out, "medium")?;
    rmp::encode::write_str(out, "GPU")
}
