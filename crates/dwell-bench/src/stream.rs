//! What a tensor stream gets out of a disk, against plain writes of the same bytes in turns with it.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use anyhow::Context;
use dwell_tensors::{Codec, DType, DirectIo, StreamOptions, TensorHead, TensorStream};

use crate::report::{Report, median};

const TOTAL_BYTES: usize = 2 << 30;
const TENSOR_BYTES: usize = 8 << 20;
const SMALL_TENSOR_BYTES: usize = 3 << 10;
const SMALL_TENSORS: u64 = 400_000;
const PAGE_BYTES: usize = 4096;

/// Least rate of the stream against plain writes.
const LEAST_SHARE: f64 = 0.90;

/// One way of writing, and what it is compared with.
struct Target<'a> {
    name: &'static str,
    folder: &'a Path,
    direct_io: DirectIo,
}

/// Writes past the page cache of the disk, through it, and into memory.
pub(crate) fn measure(rounds: u32, folder: &Path, report: &mut Report) -> anyhow::Result<()> {
    let disk = tempfile::tempdir_in(folder).context("making a folder on the disk")?;
    let memory = tempfile::tempdir_in("/dev/shm").context("making a folder in memory")?;
    let targets = [
        Target { name: "disk past the page cache", folder: disk.path(), direct_io: DirectIo::Auto },
        Target { name: "disk through the page cache", folder: disk.path(), direct_io: DirectIo::Off },
        Target { name: "tmpfs", folder: memory.path(), direct_io: DirectIo::Off },
    ];
    let mut text = "## Tensor streams, codec none, against plain writes\n\n\
         | target | plain GB/s | stream GB/s | share |\n| --- | --- | --- | --- |\n"
        .to_owned();
    for target in &targets {
        let (mut plain, mut stream, mut shares) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..rounds {
            let plain_rate = plain_rate(target)?;
            let stream_rate = stream_rate(target)?;
            report.raw("stream", round, target.name, "plain_gb_per_s", plain_rate)?;
            report.raw("stream", round, target.name, "stream_gb_per_s", stream_rate)?;
            plain.push(plain_rate);
            stream.push(stream_rate);
            shares.push(stream_rate / plain_rate);
        }
        let share = median(&shares);
        let (plain, stream) = (median(&plain), median(&stream));
        text.push_str(&format!("| {} | {plain:.2} | {stream:.2} | {:.0} % |\n", target.name, share * 100.0));
        if share < LEAST_SHARE {
            report.missed_bar(format!("{} at {:.0} % of plain writes", target.name, share * 100.0));
        }
    }
    let rates: Vec<f64> = (0..rounds).map(|_| small_tensor_rate(disk.path())).collect::<Result<_, _>>()?;
    for (round, rate) in (0..).zip(&rates) {
        report.raw("stream", round, "small tensors", "packets_per_s", *rate)?;
    }
    let thousands = median(&rates) / 1000.0;
    text.push_str(&format!("\nTensors of {SMALL_TENSOR_BYTES} bytes from one thread: {thousands:.0} k/s.\n"));
    report.section(&text);
    Ok(())
}

/// GB/s of plain writes, durable at the end.
fn plain_rate(target: &Target<'_>) -> anyhow::Result<f64> {
    const O_DIRECT: i32 = rustix::fs::OFlags::DIRECT.bits() as i32;
    let path = target.folder.join("plain");
    let flags = if target.direct_io == DirectIo::Auto { O_DIRECT } else { 0 };
    let file = OpenOptions::new().write(true).create(true).truncate(true).custom_flags(flags).open(&path);
    let file = file.with_context(|| format!("making {path:?}"))?;
    let room = vec![7_u8; TENSOR_BYTES + PAGE_BYTES];
    let skipped = room.as_ptr().align_offset(PAGE_BYTES);
    let block = &room[skipped..skipped + TENSOR_BYTES];
    let began = Instant::now();
    for offset in (0..TOTAL_BYTES as u64).step_by(TENSOR_BYTES) {
        file.write_all_at(block, offset).context("writing")?;
    }
    end(&file, began, &path)
}

fn stream_rate(target: &Target<'_>) -> anyhow::Result<f64> {
    let path = target.folder.join("stream.tensors");
    let options = StreamOptions { codec: Codec::None, direct_io: target.direct_io, ..StreamOptions::default() };
    let elements = vec![7_u8; TENSOR_BYTES];
    let began = Instant::now();
    let stream = TensorStream::create(&path, options)?;
    for step in 0..(TOTAL_BYTES / TENSOR_BYTES) as u64 {
        stream.submit(head(step, TENSOR_BYTES), &elements)?;
    }
    stream.finish()?;
    end(&File::open(&path)?, began, &path)
}

fn small_tensor_rate(folder: &Path) -> anyhow::Result<f64> {
    let path = folder.join("small.tensors");
    let options = StreamOptions { codec: Codec::None, ..StreamOptions::default() };
    let elements = vec![7_u8; SMALL_TENSOR_BYTES];
    let began = Instant::now();
    let stream = TensorStream::create(&path, options)?;
    for step in 0..SMALL_TENSORS {
        stream.submit(head(step, SMALL_TENSOR_BYTES), &elements)?;
    }
    stream.finish()?;
    let rate = SMALL_TENSORS as f64 / began.elapsed().as_secs_f64();
    std::fs::remove_file(&path).context("removing a stream")?;
    Ok(rate)
}

/// Makes a file durable, removes it, and gives its GB/s.
fn end(file: &File, began: Instant, path: &Path) -> anyhow::Result<f64> {
    file.sync_data().context("syncing")?;
    let rate = TOTAL_BYTES as f64 / 1e9 / began.elapsed().as_secs_f64();
    std::fs::remove_file(path).with_context(|| format!("removing {path:?}"))?;
    Ok(rate)
}

fn head(step: u64, bytes: usize) -> TensorHead {
    TensorHead {
        name: "model.layers.0".to_owned(),
        layer: Some(0),
        step,
        token_index: None,
        timestamp_ns: step as i64,
        dtype: DType::U8,
        shape: vec![bytes as u64],
    }
}
