//! Any bytes as the text of `perf script`. Every line is a sample, is passed over, or is counted with its reason.

#![no_main]

use dwell_decode::error::DecodeError;
use dwell_decode::perf_script::{PerfScript, ScriptSample};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut script = PerfScript::new(bytes);
    let mut samples = 0;
    let take = |_: &ScriptSample<'_>| {
        samples += 1;
        Ok::<(), DecodeError>(())
    };
    script.read(take).expect("bytes in memory can be read");
    assert_eq!(script.counts().samples, samples);
});
