//! A perf.data file with this many memory samples of 8 processors: `… --example make_recording -- FILE SAMPLES`.

use dwell_decode::testing::{MemorySample, PerfFile, fields};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (path, samples) = (arguments.next().ok_or("which file?")?, arguments.next().ok_or("how many?")?.parse()?);
    let mut file = PerfFile::new(fields::MEMORY);
    file.comm(100, "llama-server");
    for library in 0..50 {
        file.mmap2(100, 0x40_0000 + library * 0x20_0000, 0x10_0000, 0, &format!("/usr/lib/lib{library}.so"));
    }
    const ROUND: u64 = 20_000;
    const CPUS: u64 = 8;
    let sources = [0x6810_0142, 0x6810_0842, 0x1e_0508_0184, 0x2_6910_0142];
    let mut state = 1_u64;
    for round in 0..u64::div_ceil(samples, ROUND) {
        for cpu in 0..CPUS {
            for index in (round * ROUND + cpu..samples.min((round + 1) * ROUND)).step_by(CPUS as usize) {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                file.sample(&MemorySample {
                    event: (index % 3 == 0).into(),
                    ip: 0x40_0000 + (state >> 40) % 50 * 0x20_0000 + (state >> 20) % 0x1000,
                    pid: 100,
                    tid: 101 + cpu as u32,
                    time_ns: 1_000_000_000 + index * 1000,
                    address: 0x7f00_0000_0000 + (state >> 33) % (1 << 30),
                    cpu: cpu as u32,
                    period: 4000,
                    weight: 300 + (state >> 50) % 1000,
                    data_source: sources[(state >> 60) as usize % sources.len()],
                    physical_address: state >> 30,
                });
            }
        }
        file.round_ends();
    }
    std::fs::write(path, file.file())?;
    Ok(())
}
