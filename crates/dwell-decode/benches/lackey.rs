//! Lines of lackey per second of CPU: `cargo bench -p dwell-decode --bench lackey -- [million lines]`.

#![allow(clippy::unwrap_used, reason = "a step that fails ends the measurement")]

use std::fmt::Write as _;

use dwell_decode::error::DecodeError;
use dwell_decode::lackey::LackeyDecoder;

fn main() {
    let millions: u64 = std::env::args().find_map(|text| text.parse().ok()).unwrap_or(20);
    let mut text = String::new();
    for row in 0..1_000_000u64 {
        let random = (row + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let kind = ["I  ", "I  ", "I  ", " L ", "I  ", " S ", "I  ", " L "][row as usize % 8];
        writeln!(text, "{kind}{:08x},{}", random >> 28, 1 << (random & 3)).unwrap();
    }
    let begin = cpu_ns();
    let (mut decoder, mut sum) = (LackeyDecoder::default(), 0u64);
    for _ in 0..millions {
        let mut each = |access: dwell_decode::lackey::LackeyAccess| -> Result<(), DecodeError> {
            sum = sum.wrapping_add(access.address);
            Ok(())
        };
        decoder.read(&mut text.as_bytes(), &mut each).unwrap();
    }
    let seconds = (cpu_ns() - begin) as f64 / 1e9;
    let lines = decoder.counts().lines;
    println!("{:.1} M lines per CPU-s ({lines} lines in {seconds:.2} s, sum {sum:x})", lines as f64 / seconds / 1e6);
}

fn cpu_ns() -> u64 {
    dwell_clock::process_cpu_ns()
}
