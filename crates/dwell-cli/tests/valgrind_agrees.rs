//! An independent witness: every byte of weights, KV cache and activations that valgrind saw a computation load or store
//! is in the trace, and nothing else is. Between computations it is the same with what the runtime does to these bytes:
//! writing inputs, reading results, clearing the KV cache.
//!
//! `valgrind --tool=lackey --trace-mem=yes` prints every access of the worker. The recorder stores to two counters right
//! before and right after each computation; their addresses are in the ring's header, so the accesses in between can be
//! cut out and compared with the rows of that step.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;
#[path = "architectures/tiny.rs"]
mod tiny;

use std::collections::{BTreeMap, HashMap};
use std::fs::{self, File};
use std::io::{BufRead, BufReader, ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use arrow_array::cast::AsArray;
use arrow_array::types::{UInt16Type, UInt64Type};
use common::{Run, Workplace, skip, text_of};
use dwell_events::engine::EngineEvent;
use dwell_events::schema::Table;
use dwell_events::schema::trace::CLEAR_SYMBOL;
use dwell_gguf::{MakeArchitecture, MakeSpec, WeightType};
use dwell_records::{Graph, Kind};
use dwell_ring::Consumer;
use dwell_store::RawReader;

const PAGE_BYTES: u64 = 4096;

/// A set of bytes, kept as a bitmap per page.
#[derive(Default, Clone)]
struct ByteSet {
    pages: HashMap<u64, Box<[u64; 64]>>,
}

impl ByteSet {
    fn insert(&mut self, address: u64, size_bytes: u64) {
        for byte in address..address + size_bytes {
            let page = self.pages.entry(byte / PAGE_BYTES).or_insert_with(|| Box::new([0; 64]));
            let bit = byte % PAGE_BYTES;
            page[(bit / 64) as usize] |= 1 << (bit % 64);
        }
    }

    fn extend(&mut self, other: &ByteSet) {
        for (&page, words) in &other.pages {
            let own = self.pages.entry(page).or_insert_with(|| Box::new([0; 64]));
            own.iter_mut().zip(words.iter()).for_each(|(own, other)| *own |= other);
        }
    }

    /// Leaves out what another set has not.
    fn keep(&mut self, other: Option<&ByteSet>) {
        self.pages.retain(|page, words| {
            let kept = other.and_then(|other| other.pages.get(page));
            kept.is_some_and(|kept| {
                words.iter_mut().zip(kept.iter()).for_each(|(own, kept)| *own &= kept);
                true
            })
        });
    }

    /// Leaves out what another set has.
    fn leave_out(&mut self, other: &ByteSet) {
        for (page, words) in &mut self.pages {
            let left_out = other.pages.get(page).into_iter().flat_map(|left_out| left_out.iter());
            words.iter_mut().zip(left_out).for_each(|(own, left_out)| *own &= !left_out);
        }
    }

    fn contains(&self, byte: u64) -> bool {
        let bit = byte % PAGE_BYTES;
        self.pages.get(&(byte / PAGE_BYTES)).is_some_and(|page| page[(bit / 64) as usize] >> (bit % 64) & 1 == 1)
    }

    /// Bytes of the ranges that are in one set and not in the other: (only here, only there, both).
    fn compare(&self, other: &ByteSet, ranges: &[(u64, u64)]) -> (Vec<u64>, Vec<u64>, u64) {
        let (mut only_here, mut only_there, mut both) = (Vec::new(), Vec::new(), 0);
        for &(begin, end) in ranges {
            for byte in begin..end {
                match (self.contains(byte), other.contains(byte)) {
                    (true, false) => only_here.push(byte),
                    (false, true) => only_there.push(byte),
                    (true, true) => both += 1,
                    (false, false) => {}
                }
            }
        }
        (only_here, only_there, both)
    }
}

/// What one computation touched.
#[derive(Default, Clone)]
struct Touched {
    loads: ByteSet,
    stores: ByteSet,
    /// Bytes that instructions loaded, however often the same, by cache line.
    loaded_bytes: HashMap<u64, u64>,
}

const LINE_BYTES: u64 = 64;

impl Touched {
    fn extend(&mut self, other: &Touched) {
        self.loads.extend(&other.loads);
        self.stores.extend(&other.stores);
        for (&line, &bytes) in &other.loaded_bytes {
            *self.loaded_bytes.entry(line).or_default() += bytes;
        }
    }

    fn load(&mut self, address: u64, size_bytes: u64) {
        self.loads.insert(address, size_bytes);
        *self.loaded_bytes.entry(address / LINE_BYTES).or_default() += size_bytes;
    }

    /// Bytes that instructions loaded in lines that touch these ranges, and how many such lines there are.
    fn load_traffic_in(&self, ranges: &[(u64, u64)]) -> (u64, u64) {
        let is_inside =
            |line: u64| ranges.iter().any(|&(begin, end)| line * LINE_BYTES < end && begin < (line + 1) * LINE_BYTES);
        let inside = self.loaded_bytes.iter().filter(|&(&line, _)| is_inside(line));
        inside.fold((0, 0), |(bytes, lines), (_, &more)| (bytes + more, lines + 1))
    }
}

/// A pipe whose reader never waits in the kernel: valgrind writes line by line, and waking a reader for each line takes
/// most of the time of both.
struct LazyPipe {
    pipe: File,
}

impl LazyPipe {
    fn open(fifo: &Path) -> Self {
        let pipe = File::open(fifo).unwrap();
        rustix::pipe::fcntl_setpipe_size(&pipe, 1 << 20).unwrap();
        rustix::fs::fcntl_setfl(&pipe, rustix::fs::OFlags::NONBLOCK).unwrap();
        Self { pipe }
    }
}

impl Read for LazyPipe {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        loop {
            match self.pipe.read(buffer) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::sleep(Duration::from_millis(3)),
                result => return result,
            }
        }
    }
}

/// What valgrind saw.
struct Seen {
    /// What each computation touched.
    windows: Vec<Touched>,
    /// What was touched before each of them, and after the one before it.
    before: Vec<Touched>,
    /// What was touched after the last one.
    after: Touched,
}

/// Reads lackey's lines and cuts them at the stores to the two counters.
fn read_lackey(fifo: &Path, raw_dir: &Path) -> Seen {
    let mut reader = BufReader::with_capacity(1 << 20, LazyPipe::open(fifo));
    let mut counters = None;
    let (mut windows, mut before): (Vec<Touched>, Vec<Touched>) = (Vec::new(), Vec::new());
    let mut outside = Touched::default();
    let mut is_inside = false;
    let mut lines_until_look = 0u32;
    let mut line = Vec::new();
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).unwrap() == 0 {
            return without_empty(windows, before, outside);
        }
        if counters.is_none() {
            // The worker makes its ring long before its first computation; look for it now and then.
            if lines_until_look == 0 {
                lines_until_look = 20_000;
                counters = ring_in(raw_dir).map(|ring| ring.graph_counters_address());
            }
            lines_until_look -= 1;
        }
        let Some((kind, address, size_bytes)) = parse_line(&line) else { continue };
        // The counters are stored to one by one. When the ring is made its whole header is, and a reader that lags behind
        // knows the ring by then.
        let is_counter = kind != b'L' && size_bytes == 8;
        match counters {
            Some(begun) if is_counter && address == begun => {
                before.push(std::mem::take(&mut outside));
                windows.push(Touched::default());
                is_inside = true;
            }
            Some(begun) if is_counter && address == begun + 8 => is_inside = false,
            _ => {
                let touched = if is_inside { windows.last_mut().unwrap() } else { &mut outside };
                if kind != b'S' {
                    touched.load(address, size_bytes);
                }
                if kind != b'L' {
                    touched.stores.insert(address, size_bytes);
                }
            }
        }
    }
}

/// A header that is stored piece by piece looks like a computation that touched nothing.
fn without_empty(windows: Vec<Touched>, before: Vec<Touched>, after: Touched) -> Seen {
    let mut seen = Seen { windows: Vec::new(), before: Vec::new(), after };
    let mut pending = Touched::default();
    for (window, before) in windows.into_iter().zip(before) {
        pending.extend(&before);
        if !window.loads.pages.is_empty() {
            seen.windows.push(window);
            seen.before.push(std::mem::take(&mut pending));
        }
    }
    seen.after.extend(&pending);
    seen
}

fn ring_in(raw_dir: &Path) -> Option<Consumer> {
    let entries = fs::read_dir(raw_dir).ok()?.flatten().map(|entry| entry.path());
    entries.filter(|path| path.extension().is_some_and(|end| end == "ring")).find_map(|path| Consumer::open(&path).ok())
}

/// ` L 1ffeffe7e0,8`; instruction lines begin with `I` and are left out.
fn parse_line(line: &[u8]) -> Option<(u8, u64, u64)> {
    let [b' ', kind @ (b'L' | b'S' | b'M'), b' ', rest @ ..] = line else { return None };
    let text = std::str::from_utf8(rest).ok()?.trim_end();
    let (address, size) = text.split_once(',')?;
    Some((*kind, u64::from_str_radix(address, 16).ok()?, size.parse().ok()?))
}

/// The step of each computation, and the compute buffers, from the raw streams.
fn computations(run: &Run) -> (Vec<u32>, Vec<(u64, u64)>) {
    let (mut steps, mut current) = (Vec::new(), 0);
    let mut compute_buffers = BTreeMap::new();
    for (kind, payload) in raw_records(run).into_values() {
        match kind {
            Kind::Step => steps.push(current),
            Kind::Engine => {
                if let EngineEvent::BatchBegins { step, .. } = serde_json::from_slice(&payload).unwrap() {
                    current = step;
                }
            }
            Kind::Graph => {
                for buffer in Graph::decode(&payload).unwrap().buffers.iter().filter(|buffer| buffer.usage == 2) {
                    compute_buffers.insert(buffer.base, buffer.base + buffer.size_bytes);
                }
            }
            _ => {}
        }
    }
    (steps, compute_buffers.into_iter().collect())
}

/// Kind and payload of the worker's records by their numbers, which both of its streams share.
fn raw_records(run: &Run) -> BTreeMap<u64, (Kind, Vec<u8>)> {
    let mut records = BTreeMap::new();
    for stream in ["raw/engine.arrows", "raw/tensor_ops.arrows"] {
        for batch in RawReader::open(&run.dir.join(stream)).unwrap().map(Result::unwrap) {
            let sequences = batch.column(0).as_primitive::<UInt64Type>();
            let kinds = batch.column(1).as_primitive::<UInt16Type>().values().iter();
            let payloads = batch.column(3).as_binary::<i32>().iter().flatten();
            for ((sequence, kind), payload) in sequences.values().iter().zip(kinds).zip(payloads) {
                records.insert(*sequence, (Kind::from_number(*kind).unwrap(), payload.to_vec()));
            }
        }
    }
    records
}

/// What the trace says that was touched.
#[derive(Default)]
struct Claimed {
    /// By the computations of each step.
    in_graphs: BTreeMap<u32, Touched>,
    /// Before and after them: inputs that were stored, results that were loaded.
    around_graphs: BTreeMap<u32, Touched>,
    /// By setting whole buffers to one value.
    cleared: ByteSet,
}

/// What the `symbol` column calls accesses between graphs.
const BETWEEN_GRAPHS: [&str; 2] = ["set_input", "ggml_backend_tensor_get"];

fn claimed(run: &Run) -> Claimed {
    let mut claimed = Claimed::default();
    for access in run.accesses() {
        if access.op == CLEAR_SYMBOL {
            claimed.cleared.insert(access.address, access.size_bytes);
        }
        let Some(step) = access.step else { continue };
        let is_between = BETWEEN_GRAPHS.contains(&&*access.op);
        let by_step = if is_between { &mut claimed.around_graphs } else { &mut claimed.in_graphs };
        let touched = by_step.entry(step).or_default();
        let set = if access.is_store { &mut touched.stores } else { &mut touched.loads };
        set.insert(access.address, access.size_bytes);
    }
    claimed
}

fn regions(run: &Run, region_type: &str) -> Vec<(u64, u64)> {
    let mut ranges = Vec::new();
    for batch in run.batches(Table::RegionMap) {
        for row in 0..batch.num_rows() {
            if common::text(&batch, "region_type", row) == region_type {
                let address = common::wide(&batch, "address", row);
                ranges.push((address, address + common::wide(&batch, "size_bytes", row)));
            }
        }
    }
    ranges.sort_unstable();
    ranges.dedup();
    ranges
}

/// Runs a made model under lackey and compares, step by step.
fn check(name: &str, spec: MakeSpec, arguments: &[&str]) {
    check_model(name, |place| place.model(spec), arguments);
}

/// The same with a tiny model of an architecture.
fn check_architecture(name: &str, architecture: &str, arguments: &[&str]) {
    let tiny = tiny::ALL.iter().find(|tiny| tiny.architecture == architecture).unwrap();
    check_model(name, |place| tiny.make(place.path()).unwrap(), arguments);
}

fn check_model(name: &str, make: impl FnOnce(&Workplace) -> PathBuf, arguments: &[&str]) {
    if Command::new("valgrind").arg("--version").output().is_err() {
        return skip(name, "valgrind is not installed");
    }
    if std::env::var_os("DWELL_QUICK").is_some() {
        return skip(name, "an instruction-level trace takes a minute");
    }
    let place = Workplace::new();
    let model = make(&place);
    let fifo = place.path().join("lackey");
    assert!(Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let wrapper = format!("valgrind --tool=lackey --trace-mem=yes --basic-counts=no --log-file={}", fifo.display());
    let raw_dir: PathBuf = place.opened_run(&model).dir.join("raw");
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || read_lackey(&fifo, &raw_dir)
    });
    let mut command = place.run_command(&model, arguments);
    let output = command.env("DWELL_WORKER_WRAPPER", wrapper).output().unwrap();
    assert!(output.status.success(), "{name}: {}", text_of(&output));
    let seen = reader.join().unwrap();
    let run = place.opened_run(&model);
    compare(name, &run, &seen);
}

fn compare(name: &str, run: &Run, seen: &Seen) {
    let (steps, compute_buffers) = computations(run);
    assert_eq!(steps.len(), seen.windows.len(), "{name}: computations recorded and seen by valgrind");
    let claimed = claimed(run);
    assert!(claimed.in_graphs.len() >= 3, "{name}: a prompt and two decoded tokens at least");
    let of_type = |region_type: &'static str| (region_type, regions(run, region_type));
    let kept: Vec<Area> = [of_type("kv_cache"), of_type("recurrent_state")]
        .into_iter()
        .filter(|(_, ranges)| !ranges.is_empty())
        .collect();
    assert!(!kept.is_empty(), "{name}: something is kept of the tokens");
    let areas: Vec<Area> =
        [of_type("weight"), ("compute", compute_buffers.clone())].into_iter().chain(kept.iter().cloned()).collect();
    let observed = in_graphs(&steps, seen);
    compare_steps(name, &claimed.in_graphs, &observed, &areas, |area, what| area != "weight" || what == "loads");
    print_traffic(name, &claimed.in_graphs, &observed, &areas);
    let compute = [("compute between graphs", compute_buffers)];
    compare_steps(
        name,
        &claimed.around_graphs,
        &around_graphs(&steps, seen, &claimed.around_graphs),
        &compute,
        |_, _| true,
    );
    let mut stored = seen.after.stores.clone();
    seen.before.iter().for_each(|touched| stored.extend(&touched.stores));
    for (area, ranges) in &kept {
        assert!(compare_bytes(&format!("{name}: {area} between graphs"), &claimed.cleared, &stored, ranges) > 0);
    }
}

/// What valgrind saw the computations of each step touch.
fn in_graphs(steps: &[u32], seen: &Seen) -> BTreeMap<u32, Touched> {
    let mut observed: BTreeMap<u32, Touched> = BTreeMap::new();
    for (&step, window) in steps.iter().zip(&seen.windows) {
        observed.entry(step).or_default().extend(window);
    }
    observed
}

/// What it saw stored before the computations of each step, and loaded after them. Before the first of them the program had
/// other things in the same memory; of that only what was claimed is taken. The recorder itself reads inputs, to know which
/// rows and cells they name; that is not the program's doing.
fn around_graphs(steps: &[u32], seen: &Seen, claimed: &BTreeMap<u32, Touched>) -> BTreeMap<u32, Touched> {
    let mut observed: BTreeMap<u32, Touched> = BTreeMap::new();
    let mut first = seen.before.first().cloned().unwrap_or_default();
    first.stores.keep(claimed.values().next().map(|touched| &touched.stores));
    let after = seen.before.iter().skip(1).chain([&seen.after]);
    let before = [&first].into_iter().chain(seen.before.iter().skip(1));
    for ((&step, before), after) in steps.iter().zip(before).zip(after) {
        let touched = observed.entry(step).or_default();
        touched.stores.extend(&before.stores);
        touched.loads.extend(&after.loads);
    }
    let mut inputs = ByteSet::default();
    claimed.values().for_each(|touched| inputs.extend(&touched.stores));
    for (step, touched) in &mut observed {
        let mut results = touched.loads.clone();
        results.keep(claimed.get(step).map(|claimed| &claimed.loads));
        touched.loads.leave_out(&inputs);
        touched.loads.extend(&results);
    }
    observed
}

type Area = (&'static str, Vec<(u64, u64)>);

fn compare_steps(
    name: &str,
    claimed: &BTreeMap<u32, Touched>,
    observed: &BTreeMap<u32, Touched>,
    areas: &[Area],
    must_touch: impl Fn(&str, &str) -> bool,
) {
    assert_eq!(claimed.keys().collect::<Vec<_>>(), observed.keys().collect::<Vec<_>>(), "{name}: steps");
    for (step, claimed) in claimed {
        for (area, ranges) in areas {
            let pairs =
                [("loads", &claimed.loads, &observed[step].loads), ("stores", &claimed.stores, &observed[step].stores)];
            for (what, claimed, observed) in pairs {
                let subject = format!("{name}: step {step}, {area} {what}");
                let both = compare_bytes(&subject, claimed, observed, ranges);
                assert!(both > 0 || !must_touch(area, what), "{subject}: nothing to compare");
            }
        }
    }
}

/// Prints, for the last step, how often instructions load what an operation reads, and how much of all that they load the
/// trace covers: what docs/collectors/tensor_ops.md states is from here.
fn print_traffic(name: &str, claimed: &BTreeMap<u32, Touched>, observed: &BTreeMap<u32, Touched>, areas: &[Area]) {
    let (Some(claimed), Some(observed)) = (claimed.values().last(), observed.values().last()) else { return };
    let (mut covered_bytes, mut covered_lines) = (0, 0);
    for (area, ranges) in areas {
        let (bytes, lines) = observed.load_traffic_in(ranges);
        let distinct: u64 = claimed.loads.compare(&observed.loads, ranges).2;
        assert!(bytes >= distinct, "{name}: every byte that {area} reads was loaded at least once");
        println!("{name}: {area}: {distinct} B read, loaded {:.1} times", bytes as f64 / distinct.max(1) as f64);
        (covered_bytes, covered_lines) = (covered_bytes + bytes, covered_lines + lines);
    }
    let all_bytes: u64 = observed.loaded_bytes.values().sum();
    println!(
        "{name}: {:.1} % of the bytes and {:.1} % of the lines that the computation loads are in the trace",
        covered_bytes as f64 / all_bytes as f64 * 100.0,
        covered_lines as f64 / observed.loaded_bytes.len() as f64 * 100.0
    );
}

/// Checks that both sets have the same bytes of the ranges, and says how many.
fn compare_bytes(subject: &str, claimed: &ByteSet, observed: &ByteSet, ranges: &[(u64, u64)]) -> u64 {
    let (only_claimed, only_observed, both) = claimed.compare(observed, ranges);
    assert!(
        only_claimed.is_empty() && only_observed.is_empty(),
        "{subject}: {both} bytes agree, {} claimed only (first {:x?}), {} observed only (first {:x?}) of {ranges:x?}",
        only_claimed.len(),
        only_claimed.first(),
        only_observed.len(),
        only_observed.first(),
    );
    both
}

fn tiny(weight_type: WeightType) -> MakeSpec {
    MakeSpec {
        layers: 1,
        embedding: 64,
        heads: 2,
        kv_heads: 1,
        feed_forward: 128,
        vocabulary: 320,
        weight_type,
        ..MakeSpec::default()
    }
}

fn wide_rows(weight_type: WeightType) -> MakeSpec {
    MakeSpec { embedding: 256, heads: 4, kv_heads: 2, feed_forward: 256, ..tiny(weight_type) }
}

const SHORT: [&str; 4] = ["--prompt", "abc", "--max-tokens", "3"];

#[test]
fn f16_weights() {
    check("f16_weights", tiny(WeightType::F16), &SHORT);
}

#[test]
fn q4_k_weights() {
    check("q4_k_weights", wide_rows(WeightType::Q4_K), &[&SHORT[..], &["--repack", "off"]].concat());
}

#[test]
fn repacked_q4_k_weights() {
    check("repacked_q4_k_weights", wide_rows(WeightType::Q4_K), &SHORT);
}

#[test]
fn q8_0_weights_and_q8_0_cache() {
    check("q8_0_weights_and_q8_0_cache", wide_rows(WeightType::Q8_0), &[&SHORT[..], &["--kv-type", "q8_0"]].concat());
}

#[test]
fn q4_0_weights_and_q4_0_cache_without_mmap() {
    let arguments = [&SHORT[..], &["--kv-type", "q4_0", "--mmap", "off"]].concat();
    check("q4_0_weights_and_q4_0_cache_without_mmap", wide_rows(WeightType::Q4_0), &arguments);
}

#[test]
fn attention_in_separate_operations() {
    let arguments = [&SHORT[..], &["--flash-attention", "off"]].concat();
    check("attention_in_separate_operations", tiny(WeightType::F16), &arguments);
}

#[test]
fn a_prompt_of_seventy_tokens() {
    let prompt = "x".repeat(69);
    check("a_prompt_of_seventy_tokens", tiny(WeightType::F16), &["--prompt", &prompt, "--max-tokens", "3"]);
}

#[test]
fn a_mixture_of_experts() {
    let spec = MakeSpec { experts: 8, experts_used: 2, ..tiny(WeightType::F16) };
    check("a_mixture_of_experts", spec, &SHORT);
}

#[test]
fn sliding_window_layers() {
    let spec = MakeSpec {
        architecture: MakeArchitecture::Gemma3,
        layers: 6,
        window: Some(8),
        head_dim: Some(32),
        ..tiny(WeightType::F16)
    };
    check("sliding_window_layers", spec, &["--prompt", "abcdefghijkl", "--max-tokens", "4"]);
}

#[test]
fn two_sequences_in_one_pool() {
    let arguments = [&SHORT[..], &["--parallel", "2", "--kv-unified"]].concat();
    check("two_sequences_in_one_pool", tiny(WeightType::F16), &arguments);
}

#[test]
fn two_sequences_with_a_stream_each() {
    let arguments = [&SHORT[..], &["--parallel", "2", "--context-length", "512"]].concat();
    check("two_sequences_with_a_stream_each", tiny(WeightType::F16), &arguments);
}

#[test]
fn removal_reuse_and_shift_of_cells() {
    let actions = tempfile::NamedTempFile::new().unwrap();
    let text = r#"[
        {"do": "prompt", "text": "abcdefgh", "sequences": [0]},
        {"do": "generate", "max_tokens": 2, "sequences": [0]},
        {"do": "remove", "sequence": 0, "from": 3, "to": 6},
        {"do": "shift", "sequence": 0, "from": 6, "to": -1, "delta": -3},
        {"do": "generate", "max_tokens": 3, "sequences": [0]}
    ]"#;
    fs::write(actions.path(), text).unwrap();
    check("removal_reuse_and_shift_of_cells", tiny(WeightType::F16), &["--actions", actions.path().to_str().unwrap()]);
}

#[test]
fn biases_of_experts_over_a_prompt() {
    check_architecture("biases_of_experts_over_a_prompt", "gpt-oss", &SHORT);
}

#[test]
fn sorting_among_many_experts() {
    let spec = MakeSpec { experts: 32, experts_used: 2, feed_forward: 32, ..tiny(WeightType::F16) };
    check("sorting_among_many_experts", spec, &SHORT);
}

#[test]
fn latent_attention() {
    check_architecture("latent_attention", "deepseek2", &SHORT);
}

#[test]
fn scans_of_two_sequences_among_four_states() {
    let actions = tempfile::NamedTempFile::new().unwrap();
    let text = r#"[
        {"do": "prompt", "text": "abc", "sequences": [0]},
        {"do": "prompt", "text": "de", "sequences": [2]},
        {"do": "generate", "max_tokens": 2, "sequences": [0, 2]},
        {"do": "generate", "max_tokens": 2, "sequences": [2]}
    ]"#;
    fs::write(actions.path(), text).unwrap();
    let arguments = ["--parallel", "4", "--context-length", "1024", "--actions", actions.path().to_str().unwrap()];
    check_architecture("scans_of_two_sequences_among_four_states", "mamba", &arguments);
}

#[test]
fn a_scan_beside_attention() {
    check_architecture("a_scan_beside_attention", "falcon-h1", &SHORT);
}

#[test]
fn recurrences_by_heads() {
    check_architecture("recurrences_by_heads, 6", "rwkv6", &SHORT);
    check_architecture("recurrences_by_heads, 7", "rwkv7", &SHORT);
}

#[test]
fn a_delta_net() {
    check_architecture("a_delta_net", "qwen3next", &SHORT);
}
