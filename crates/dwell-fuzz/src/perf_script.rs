//! Text of `perf script`. Every line is a sample, is passed over, or is counted with its reason.

use dwell_decode::error::DecodeError;
use dwell_decode::perf_script::{PerfScript, ScriptSample};

pub(crate) fn run(bytes: &[u8]) {
    let mut script = PerfScript::new(bytes);
    let mut samples = 0;
    let take = |_: &ScriptSample<'_>| {
        samples += 1;
        Ok::<(), DecodeError>(())
    };
    script.read(take).expect("bytes in memory can be read");
    assert_eq!(script.counts().samples, samples);
}
