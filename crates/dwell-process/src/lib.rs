//! TEMPORARY placeholder by the lead so that the rest compiles: SamplerThread::start(&targets, interval, SyncSender<Vec<MemoryRow>>) and stop() -> SamplerSummary{missed}.
use dwell_events::schema::memory::MemoryRow;
/// x
pub struct SamplerThread;
/// x
#[derive(Default)]
pub struct SamplerSummary { /** x */ pub missed: u64 }
impl SamplerThread {
    /// x
    pub fn start(_t: &[(&str, u32)], _i: std::time::Duration, _s: std::sync::mpsc::SyncSender<Vec<MemoryRow>>) -> Self { Self }
    /// x
    pub fn stop(self) -> SamplerSummary { SamplerSummary::default() }
}
