//! The seeds of the fuzz targets, written to `fuzz/corpus`.

use std::fs;
use std::path::Path;

use dwell_decode::testing::{MemorySample, PerfFile, fields};

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

fn main() -> std::io::Result<()> {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus");
    let put = |target: &str, name: &str, bytes: &[u8]| fs::write(corpus.join(target).join(name), bytes);
    let plain = recording(fields::MEMORY);
    put("perf_data", "file", &plain.file())?;
    put("perf_data", "pipe", &plain.pipe())?;
    put("perf_data", "compressed", &plain.compressed(400, false)?.file())?;
    put("perf_data", "compressed2", &plain.compressed(400, true)?.pipe())?;
    let all = fields::MEMORY | fields::LONG_BEFORE_WEIGHT | fields::BETWEEN | fields::BEHIND;
    put("perf_data", "all_fields", &recording(all).file())?;
    put("perf_script", "lines", SCRIPT.as_bytes())
}

fn recording(sample_type: u64) -> PerfFile {
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
