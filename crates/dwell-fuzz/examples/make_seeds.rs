//! Makes the seeds of the fuzz targets, in `fuzz/corpus/<target>`: small files of each form that a decoder reads.

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{RecordBatch, StringArray, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use dwell_codec::{Codec, DType, Encoder};
use dwell_decode::memray::Allocator;
use dwell_decode::testing::memray::CaptureFile;
use dwell_decode::testing::{MemorySample, PerfFile, fields};
use dwell_gguf::MetadataValue;
use dwell_metadata::RunMetadata;
use dwell_records::testing::{RecordBuilder, SmallModel};
use dwell_store::{Manifest, ManifestFile, RawCompression, RawWriter};
use dwell_tensors::{StreamOptions, TensorHead, TensorStream};

type Made = Result<(), Box<dyn Error>>;

const KV_LINES: &str = r#"[1722690062.5, [["BlockStored", [1, 2], null, [5, 6, 7, 8], 2, null], ["BlockRemoved", [1]], ["AllBlocksCleared"]], 0]
{"seq": 7, "batch": {"ts": 1.5, "events": [{"type": "BlockStored", "block_hashes": [3], "parent_block_hash": 2, "token_ids": [1], "block_size": 16, "lora_id": null, "medium": "GPU"}]}}
"#;
const EVENTS: &str =
    "\u{5}event: chunk\r\ndata: {\"content\":\"Hi\"}\n\n: comment\ndata: a\ndata: b\n\ndata: [DONE]\n\n";
const LINES: &str = "\u{3}{\"response\":\"Hi\",\"done\":false}\n\r\n{\"done\":true}";
const METRICS: &str = "# HELP a b\n# TYPE vllm:cache_usage gauge\nvllm:cache_usage{model=\"a\\\"b,c\",x=\"y\"} 0.25 17\n\
                       requests_total 1e3\nbucket_le{le=\"+Inf\"} NaN\nbare -Inf\n";
const LACKEY: &str =
    "==9== Lackey\nI  0400,3\n S 1ffe0,8\nI  0403,3\n M 1ffe0,4\nout\n L 1ffeffff30,8\n L 20x0,1\n L 2000";
const OBSERVED: &str = r#"{"timestamp":1700000000.5,"interval_s":5.0,"latency_histogram":[{"device_id":266338304,"device_name":"vda","total":3,"buckets":[{"slot":7,"count":3,"bucket_low":128,"bucket_high":255}],"operations":[{"operation":"read","requests":3,"bytes":4096,"latency_ns":9000}]}],"inflight":[{"device_id":266338304,"device_name":"vda","count":2}]}
{"timestamp":1700000005.5,"interval_s":5.0,"begin_ns":5000000,"end_ns":9000000,"off_cpu_ns":{"4711":9},"page_faults":{"4711":7},"pressure":{"cpu":{"some":{"avg10":1.5,"avg60":1.0,"avg300":0.5,"total":99}}}}
{"timestamp":17000"#;
const BROWSER: &str = "{\"type\":\"loaded\",\"t_ms\":1,\"model\":{\"parameters\":3e6},\"kv\":{\"preallocated\":true,\"bytes\":9},\"device\":\"webgpu\",\
                       \"buffers\":[{\"kind\":\"kv_cache\",\"bytes\":10,\"where\":\"webgpu\"}]}\0{\"type\":\"token\",\"t_ms\":1.5,\"text\":\"a\"}\0\
                       {\"type\":\"sample\",\"t_ms\":1e300,\"gpu\":{\"weight\":-1}}\0{\"type\":\"done\",\"timings\":{\"prompt_ms\":1e99}}\0{";
const SCRIPT: &str = "# comment
    llama server   100/101   [001] U    1.000000000:       4000 cpu/mem-loads,ldlat=30/P:     7f0000000000        68100142 \
|OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A      300       5           401000 \
ns::F<int, char>::f(int) const+0x10 (/usr/bin/x (y))        12345000
  ls 10883   374.430021: page-faults:     7f9c80cb5110 dl_close_state.2 (/usr/lib/ld.so.2) ffffffff8175286a elf_load ([k])
ls 10027  2260.215166: page-faults:     55d6fa8675c0
\tffffffff8175286a elf_load ([kernel.kallsyms])

  100     1.000000:     7f0000000000
  swapper 0 374.4: PERF_RECORD_LOST lost 42
";

fn main() -> Made {
    texts()?;
    recordings_of_perf()?;
    captures_of_memray()?;
    run_files()?;
    model()?;
    tensors()?;
    codecs()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn put(target: &str, name: &str, bytes: impl AsRef<[u8]>) -> Made {
    let folder = root().join("fuzz/corpus").join(target);
    fs::create_dir_all(&folder)?;
    Ok(fs::write(folder.join(name), bytes)?)
}

fn texts() -> Made {
    put("lackey", "lines", LACKEY)?;
    put("perf_script", "lines", SCRIPT)?;
    put("sse", "events", EVENTS)?;
    put("ndjson", "lines", LINES)?;
    put("prometheus", "metrics", METRICS)?;
    put("kv_json", "lines", KV_LINES)?;
    put("observe", "lines", OBSERVED)?;
    put("browser", "reports", BROWSER)?;
    put(
        "zmtp",
        "batch",
        [
            &b"\x05\x04\x05\x05READY\x01\x02kv\x01\x08\0\0\0\0\0\0\0\x07"[..],
            &[2, 0, 0, 0, 0, 0, 0, 0, 3, 0x92, 0xc0, 0x90],
        ]
        .concat(),
    )?;
    put("zmtp", "claimed", b"\x01\x02\0\0\x40\0\0\0\0\0aaaa")?;
    put("alloc_ring", "two_chunks", ring_of_allocations(1, 2))?;
    put("alloc_ring", "huge_counters", ring_of_allocations(u64::MAX, u64::MAX))?;
    for (number, line) in KV_LINES.lines().enumerate() {
        put("kv_msgpack", &format!("batch{number}"), dwell_kv_events::batch_of_line(line.as_bytes())?.payload)?;
    }
    put("experiment", "default", fs::read(root().join("config/default_experiment.yaml"))?)?;
    put("experiment", "tiny", fs::read(root().join("config/tiny_experiment.yaml"))?)?;
    put("rules", "default", fs::read(root().join("config/labeller_rules.yaml"))?)
}

/// A ring of two chunks, of which a thread has written two events into the first: see the layout in dwell-ring.
fn ring_of_allocations(sequence: u64, freed: u64) -> Vec<u8> {
    const COUNTERS_AT: usize = 1152;
    const CHUNKS_AT: usize = 8192;
    let mut ring = vec![0; CHUNKS_AT + 2 * 4096];
    let mut put = |at: usize, bytes: &[u8]| ring[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, b"DWELLALC");
    // Version, chunks, process, source of ticks; when it was made; its program.
    [1_u32, 2, 77, 0].iter().enumerate().for_each(|(at, value)| put(8 + 4 * at, &value.to_le_bytes()));
    put(24, &[5_u64.to_le_bytes(), 9_u64.to_le_bytes()].concat());
    put(72, b"/usr/bin/x");
    // Chunks that were taken and freed.
    put(COUNTERS_AT, &1_u64.to_le_bytes());
    put(COUNTERS_AT + 64, &freed.to_le_bytes());
    put(4100, &1_u32.to_le_bytes());
    // Number, thread, events, and that no more will come.
    put(CHUNKS_AT, &sequence.to_le_bytes());
    put(CHUNKS_AT + 8, &[78_u32, 2, 1].map(u32::to_le_bytes).concat());
    for (event, call) in [1_u64, 64].into_iter().enumerate() {
        let words = [10 + event as u64, 0x7000, 64, call];
        put(CHUNKS_AT + 64 + 32 * event, &words.map(u64::to_le_bytes).concat());
    }
    ring
}

fn recordings_of_perf() -> Made {
    let plain = recording_of_perf(fields::MEMORY);
    put("perf_data", "file", plain.file())?;
    put("perf_data", "pipe", plain.pipe())?;
    put("perf_data", "compressed", plain.compressed(400, false)?.file())?;
    put("perf_data", "compressed2", plain.compressed(400, true)?.pipe())?;
    let all = fields::MEMORY | fields::LONG_BEFORE_WEIGHT | fields::BETWEEN | fields::BEHIND;
    put("perf_data", "all_fields", recording_of_perf(all).file())
}

fn recording_of_perf(sample_type: u64) -> PerfFile {
    let mut file = PerfFile::new(sample_type);
    file.comm(100, "llama server");
    file.mmap2(100, 0x40_0000, 0x10_0000, 0, "/usr/bin/python3");
    file.fork(200, 100, 900);
    for index in 0..4 {
        file.sample(&MemorySample {
            event: (index % 2) as usize,
            ip: 0x40_1000,
            pid: 100,
            time_ns: 1000 + index,
            ..MemorySample::default()
        });
        file.round_ends();
    }
    file.lost(3, 2000);
    file
}

fn captures_of_memray() -> Made {
    let calls = capture_of_memray(13, true);
    put("memray", "native", calls.file())?;
    put("memray", "killed", &calls.killed()[..1024])?;
    put("memray", "compressed", calls.compressed()?)?;
    put("memray", "version12", capture_of_memray(12, false).file())?;
    let mut sums = CaptureFile { has_sums: true, ..CaptureFile::default() };
    sums.memory_with_heap(10, 5 << 20, 1000);
    sums.thread(0x7001);
    sums.thread_name("worker");
    sums.code(7, "main", "serve.py", 10);
    sums.frame(0, 7, 0, true);
    sums.stack(0, 0);
    sums.site(0x7001, Allocator::Malloc, 1, (3, 300), (1, 100));
    put("memray", "sums", sums.file())
}

fn capture_of_memray(version: u32, has_native_stacks: bool) -> CaptureFile {
    let mut file = CaptureFile { version, has_native_stacks, ..CaptureFile::default() };
    file.mappings_begin();
    file.image("/usr/lib/libc.so.6", 0x7f00_0000_0000, 0x1000, 0x5000);
    file.thread(0x7001);
    file.code(1, "main", "serve.py", 10);
    file.function_called(1, 0, true);
    file.native_frame(0x7f00_0000_1001, 0);
    file.call(Allocator::Malloc, 0x1000, 100, 1);
    file.memory(10, 5 << 20);
    file.call(Allocator::Mmap, 0x7fff_0000_0000, 8192, 0);
    file.call_at_recent(Allocator::Munmap, 0, 4096, 0);
    file.call_at_recent(Allocator::Free, 1, 0, 0);
    file.object_made(0x3000);
    file.functions_return(1);
    file
}

fn run_files() -> Made {
    let model = SmallModel::new();
    let records = RecordBuilder::new()
        .hello(10)
        .engine(20, br#"{"event":"phase_begins","phase":"generation"}"#)
        .graph(30, &model.graph)
        .step(40, &model.step(0, 7, 31..39))
        .refusal(50, "no room");
    put("wire_records", "small_model", records.ring_bytes().concat())?;
    let file =
        ManifestFile { path: "trace.parquet".to_owned(), size_bytes: 7, sha256: "ab".repeat(32), schema_version: None };
    let manifest = Manifest {
        manifest_schema_version: dwell_store::MANIFEST_SCHEMA_VERSION.to_owned(),
        run_id: "demo".to_owned(),
        created_at_utc: "2024-01-01T00:00:00Z".to_owned(),
        files: vec![file],
    };
    put("manifest", "one_file", serde_json::to_vec_pretty(&manifest)?)?;
    put("metadata", "default", serde_json::to_vec_pretty(&RunMetadata::default())?)?;
    let folder = tempfile::tempdir()?;
    for (name, compression) in [("plain", RawCompression::None), ("compressed", RawCompression::Zstd)] {
        let path = folder.path().join(name);
        raw_stream(&path, compression)?;
        put("raw_stream", name, fs::read(path)?)?;
    }
    Ok(())
}

fn raw_stream(path: &Path, compression: RawCompression) -> Made {
    let fields = vec![Field::new("time_ns", DataType::UInt64, false), Field::new("text", DataType::Utf8, true)];
    let schema = Arc::new(Schema::new(fields));
    let mut writer = RawWriter::create(path, schema.clone(), compression)?;
    for number in 0..3 {
        let texts = StringArray::from(vec![Some("a"), None, Some("a longer text")]);
        let numbers = UInt64Array::from(vec![number, number + 1, u64::MAX]);
        writer.write(&RecordBatch::try_new(schema.clone(), vec![Arc::new(numbers), Arc::new(texts)])?)?;
        writer.flush()?;
    }
    Ok(writer.finish()?)
}

fn model() -> Made {
    let text = |value: &str| MetadataValue::Text(value.to_owned());
    let number = MetadataValue::U32;
    let values = [
        ("general.architecture", text("llama")),
        ("general.name", text("seed")),
        ("llama.block_count", number(1)),
        ("llama.context_length", number(64)),
        ("llama.embedding_length", number(8)),
        ("llama.feed_forward_length", number(16)),
        ("llama.attention.head_count", number(2)),
        ("llama.attention.head_count_kv", number(1)),
    ];
    let values = values.map(|(key, value)| (key.to_owned(), value));
    let tensors = [("token_embd.weight".to_owned(), vec![8, 2]), ("blk.0.attn_q.weight".to_owned(), vec![8, 8])];
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("seed.gguf");
    dwell_gguf::testing::write_model(&path, &values, &tensors)?;
    put("gguf", "llama", fs::read(path)?)
}

fn tensors() -> Made {
    let folder = tempfile::tempdir()?;
    for (name, codec) in [("lz4", "lz4"), ("float", "float")] {
        let path = folder.path().join(name);
        let options = StreamOptions { codec: codec.parse::<Codec>()?, workers: 1, ..StreamOptions::default() };
        let stream = TensorStream::create(&path, options)?;
        for step in 0..2 {
            let head = TensorHead {
                name: "l_out-0".to_owned(),
                layer: Some(0),
                step,
                token_index: Some(step),
                timestamp_ns: 1000 + step as i64,
                dtype: DType::F32,
                shape: vec![2, 4],
            };
            let elements: Vec<u8> = (0..8).flat_map(|value| (value as f32).to_le_bytes()).collect();
            stream.submit(head, &elements)?;
            stream.record_token(5, "a")?;
        }
        stream.finish()?;
        put("tensor_stream", name, fs::read(path)?)?;
    }
    Ok(())
}

/// The head of each says codec, type and number of elements, as the target takes them.
fn codecs() -> Made {
    let elements: Vec<u8> = (0..64).flat_map(|value| (value as f32 * 0.25).to_le_bytes()).collect();
    let names = ["none", "lz4", "zstd:1", "float", "bounded:range:1e-3", "bounded:nmse:1e-6"];
    for (number, name) in names.into_iter().enumerate() {
        let mut payload = Vec::new();
        Encoder::default().encode(name.parse()?, DType::F32, 8, &elements, &mut payload);
        let head = [number as u8, 2, 64, 0];
        put("codec", &name.replace(':', "_"), [&head, &payload[..]].concat())?;
    }
    Ok(())
}
