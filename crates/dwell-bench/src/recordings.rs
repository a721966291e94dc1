//! Recordings of other programs, made from a seed: the same bytes whenever they are made.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::Context;
use dwell_decode::testing::{MemorySample, PerfFile, fields};

const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
const CPUS: u64 = 8;
/// Distinct addresses, 320 bytes apart.
const ADDRESSES: u64 = 200_000;
const FIRST_ADDRESS: u64 = 0x7f00_0000_0000;
const FIRST_INSTRUCTION: u64 = 0x55d0_c000_0000;
/// Functions, each at work in a part of the addresses, as those that read weights are.
const FUNCTIONS: u64 = 40;
const SAMPLING_PERIOD: u64 = 4000;
/// Samples that perf writes between two marks of a round.
const ROUND: u64 = 20_000;

/// Data sources as numbers and as perf prints them; the second is a store.
const SOURCES: [(u64, &str); 4] = [
    (0x6810_0142, "|OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A"),
    (0x1e_0508_0184, "|OP STORE|LVL L1 hit|SNP N/A|TLB N/A|LCK N/A|BLK  N/A"),
    (0x6810_0842, "|OP LOAD|LVL L3 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A"),
    (0x2_6910_0142, "|OP LOAD|LVL L1 hit|SNP Miss|TLB L2 miss|LCK No|BLK  N/A"),
];
const EVENTS: [&str; 2] = ["cpu/mem-loads,ldlat=30/P", "cpu/mem-stores/P"];

/// Which fields of `perf script` are printed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ScriptFields {
    /// `-F comm,pid,time,event,addr,sym,dso,weight,data_src`, which mrm-trace asks for: no address has a symbol.
    OfPeer,
    /// `-F comm,tid,cpu,time,period,event,addr,ip,sym,dso,weight,data_src`: with the function of each instruction.
    WithFunctions,
}

/// One access.
struct Access {
    time_ns: u64,
    cpu: u64,
    address: u64,
    instruction: u64,
    function: u64,
    source: usize,
    cycles: u64,
}

impl Access {
    fn event(&self) -> usize {
        usize::from(self.source == 1)
    }
}

/// Accesses of a fixed sequence (xorshift).
fn accesses(count: u64) -> impl Iterator<Item = Access> {
    let mut state = SEED;
    (0..count).map(move |number| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let place = (state >> 20) % ADDRESSES;
        let function = place * FUNCTIONS / ADDRESSES;
        Access {
            time_ns: 1_000_000_000_000 + number * 1_000 + (state >> 54) % 900,
            cpu: (state >> 50) % CPUS,
            address: FIRST_ADDRESS + place * 320,
            instruction: FIRST_INSTRUCTION + function * 4096 + (state >> 40) % 4096,
            function,
            source: (state >> 60) as usize % SOURCES.len(),
            cycles: (state >> 30) % 300,
        }
    })
}

/// Names that the built-in rules know, and others.
fn function_name(number: u64) -> String {
    let known = ["ggml_vec_dot_q4_0_q8_0", "ggml_compute_forward_set_rows", "ggml_compute_forward_soft_max", "memcpy"];
    match known.get(number as usize / 4) {
        Some(name) => format!("{name}_{number}"),
        None => format!("std::__detail::_Map_base<int, std::pair<int const, long> >::operator[]_{number}"),
    }
}

/// Writes what `perf script --ns` prints.
pub(crate) fn write_perf_script(path: &Path, samples: u64, printed: ScriptFields) -> anyhow::Result<()> {
    let names: Vec<String> = (0..FUNCTIONS).map(function_name).collect();
    let mut text = BufWriter::new(File::create(path).context("making a text of perf")?);
    for access in accesses(samples) {
        let (seconds, ns) = (access.time_ns / 1_000_000_000, access.time_ns % 1_000_000_000);
        let (event, (source, words)) = (EVENTS[access.event()], SOURCES[access.source]);
        let (address, cycles) = (access.address, access.cycles);
        match printed {
            ScriptFields::OfPeer => writeln!(
                text,
                "    llama-server {:7} {seconds:5}.{ns:09}: {event:>24}: {address:16x} {source:16x} {words} {cycles:16}",
                4242 + access.cpu
            ),
            ScriptFields::WithFunctions => writeln!(
                text,
                "    llama-server {:7} [{:03}] {seconds:5}.{ns:09}: {SAMPLING_PERIOD:10} {event:>24}: {address:16x} \
                 {source:16x} {words} {cycles:16} {:16x} {} (/usr/lib/libggml-cpu.so)",
                4242 + access.cpu,
                access.cpu,
                access.instruction,
                names[access.function as usize],
            ),
        }
        .context("writing a text of perf")?;
    }
    text.flush().context("writing a text of perf")
}

/// Writes a perf.data file as `perf mem record` leaves it: the buffers of the processors one after the other.
pub(crate) fn write_perf_data(path: &Path, samples: u64) -> anyhow::Result<()> {
    const PID: u32 = 100;
    let mut file = PerfFile::new(fields::MEMORY);
    file.comm(PID, "llama-server");
    file.mmap2(PID, FIRST_INSTRUCTION, FUNCTIONS * 4096, 0, "/usr/lib/libggml-cpu.so");
    let mut accesses = accesses(samples);
    for _ in 0..samples.div_ceil(ROUND) {
        let mut round: Vec<Access> = accesses.by_ref().take(ROUND as usize).collect();
        round.sort_by_key(|access| access.cpu);
        for access in round {
            file.sample(&MemorySample {
                event: access.event(),
                ip: access.instruction,
                pid: PID,
                tid: PID + 1 + access.cpu as u32,
                time_ns: access.time_ns,
                address: access.address,
                cpu: access.cpu as u32,
                period: SAMPLING_PERIOD,
                weight: access.cycles,
                data_source: SOURCES[access.source].0,
                physical_address: access.address >> 1,
            });
        }
        file.round_ends();
    }
    std::fs::write(path, file.file()).context("writing a perf.data file")
}

/// Writes what valgrind's lackey prints: of eight lines, five are instructions.
pub(crate) fn write_lackey(path: &Path, lines: u64) -> anyhow::Result<()> {
    const KINDS: [&str; 8] = ["I ", "I ", "I ", " L", "I ", " S", "I ", " L"];
    let mut text = BufWriter::new(File::create(path).context("making a text of lackey")?);
    for (number, access) in (0..lines).zip(accesses(lines)) {
        let kind = KINDS[number as usize % KINDS.len()];
        let address = if kind == "I " { access.instruction } else { access.address };
        writeln!(text, "{kind} {address:08x},{}", 1 << (access.cycles % 4)).context("writing a text of lackey")?;
    }
    text.flush().context("writing a text of lackey")
}
