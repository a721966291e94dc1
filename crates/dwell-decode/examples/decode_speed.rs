//! How fast a recording is decoded: `cargo run --release -p dwell-decode --example decode_speed -- FILE`, where FILE is a
//! perf.data file or the text of `perf script`. Says samples for each second of CPU time.

use std::fs::File;
use std::io::Read;

use dwell_decode::error::DecodeError;
use dwell_decode::perf_data::{AddressSpaces, PerfData, Record};
use dwell_decode::perf_script::{PerfScript, ScriptSample};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let path = std::env::args().nth(1).ok_or("which file?")?;
    let mut magic = [0; 8];
    File::open(&path)?.read_exact(&mut magic)?;
    let before_s = cpu_s()?;
    let samples = if &magic == b"PERFILE2" { perf_data(&path)? } else { perf_script(&path)? };
    let spent_s = cpu_s()? - before_s;
    println!("{samples} samples, {spent_s:.3} s of CPU time, {:.2} M samples/s", samples as f64 / spent_s / 1e6);
    Ok(())
}

fn perf_data(path: &str) -> Result<u64, DecodeError> {
    let file = File::open(path).map_err(|error| DecodeError::new(0, dwell_decode::error::DecodeReason::Read(error)))?;
    let mut data = PerfData::open(file)?;
    let mut spaces = AddressSpaces::default();
    let mut found = 0_u64;
    while let Some(record) = data.next_record()? {
        match record {
            Record::Sample(sample) => {
                let place = sample.process().zip(sample.ip()).and_then(|(process, ip)| spaces.find(process.pid, ip));
                found += u64::from(place.is_some());
            }
            other => spaces.take(other),
        }
    }
    println!("{found} instructions in known files");
    Ok(data.recording().counts.samples)
}

fn perf_script(path: &str) -> Result<u64, Box<dyn std::error::Error>> {
    let mut script = PerfScript::new(File::open(path)?);
    let mut sum = 0_u64;
    script.read(|sample: &ScriptSample<'_>| {
        sum = sum.wrapping_add(sample.address);
        Ok::<(), DecodeError>(())
    })?;
    println!("sum of addresses {sum:x}, {:?}", script.counts().skipped);
    Ok(script.counts().samples)
}

/// CPU time of this process.
fn cpu_s() -> Result<f64, Box<dyn std::error::Error>> {
    let stat = std::fs::read_to_string("/proc/self/schedstat")?;
    let ns: u64 = stat.split_whitespace().next().ok_or("no CPU time")?.parse()?;
    Ok(ns as f64 / 1e9)
}
