//! What the machine does while a run goes on.

mod energy;
mod frequency;
mod range;
mod temperature;
mod throttle;

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use dwell_events::host::SensorSummary;
use dwell_process::thread_cpu_ns;

use crate::cpu_times::CpuWatch;
use crate::error::HostError;
use crate::pressure::PressureWatch;
use crate::root::Root;

pub(crate) use energy::{ENABLE_COMMAND, EnergyWatch};
pub(crate) use frequency::FrequencyWatch;
pub(crate) use temperature::TemperatureWatch;
pub(crate) use throttle::ThrottleWatch;

/// Watches the sensors on a thread of its own. Dropped without [`SensorThread::stop`], it stops all the same.
pub struct SensorThread {
    should_stop: Arc<AtomicBool>,
    /// `None` once joined.
    thread: Option<JoinHandle<SensorSummary>>,
}

impl SensorThread {
    /// Takes the first sample before it returns, then one at every interval.
    pub fn start(root: &Root, interval: Duration) -> Result<Self, HostError> {
        if interval.is_zero() {
            return Err(HostError::ZeroInterval);
        }
        let should_stop = Arc::new(AtomicBool::new(false));
        let watches = Watches::begin(root);
        let seen = should_stop.clone();
        let thread = thread::Builder::new()
            .name("dwell-sensors".to_owned())
            .spawn(move || watch(watches, interval, &seen))
            .map_err(|source| HostError::NoThread { source })?;
        Ok(Self { should_stop, thread: Some(thread) })
    }

    /// Takes the last sample and says what was seen.
    pub fn stop(mut self) -> SensorSummary {
        match self.join() {
            Some(Ok(summary)) => summary,
            Some(Err(panic)) => resume_unwind(panic),
            None => SensorSummary::default(),
        }
    }

    fn join(&mut self) -> Option<thread::Result<SensorSummary>> {
        let thread = self.thread.take()?;
        self.should_stop.store(true, Ordering::Release);
        thread.thread().unpark();
        Some(thread.join())
    }
}

impl Drop for SensorThread {
    fn drop(&mut self) {
        self.join();
    }
}

fn watch(mut watches: Watches, interval: Duration, should_stop: &AtomicBool) -> SensorSummary {
    let mut due = Instant::now();
    loop {
        // From the first sample on, so that the pace does not drift; what was missed is not made up for.
        due = (due + interval).max(Instant::now());
        wait_until(due, should_stop);
        let is_last = should_stop.load(Ordering::Acquire);
        watches.look();
        if is_last {
            return watches.end();
        }
    }
}

fn wait_until(due: Instant, should_stop: &AtomicBool) {
    while !should_stop.load(Ordering::Acquire) {
        let left = due.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        thread::park_timeout(left);
    }
}

/// All sensors with their files open.
pub(crate) struct Watches {
    begin: Instant,
    begin_cpu_ns: u64,
    samples: u64,
    buffer: Vec<u8>,
    temperature: TemperatureWatch,
    frequency: FrequencyWatch,
    throttle: ThrottleWatch,
    energy: EnergyWatch,
    cpu: CpuWatch,
    pressure: PressureWatch,
}

impl Watches {
    /// Opens all that is there and takes the first sample.
    pub(crate) fn begin(root: &Root) -> Self {
        let cpu_ns = thread_cpu_ns();
        let mut buffer = vec![0; 4096];
        let mut watches = Self {
            begin: Instant::now(),
            begin_cpu_ns: 0,
            samples: 0,
            temperature: TemperatureWatch::open(root),
            frequency: FrequencyWatch::open(root),
            throttle: ThrottleWatch::begin(root),
            energy: EnergyWatch::begin(root),
            cpu: CpuWatch::begin(root, &mut buffer),
            pressure: PressureWatch::begin(root, &mut buffer),
            buffer,
        };
        watches.look();
        watches.begin_cpu_ns = thread_cpu_ns() - cpu_ns;
        watches
    }

    /// Takes a sample of all that is not told by its first and last state alone.
    pub(crate) fn look(&mut self) {
        self.temperature.look();
        self.frequency.look(&mut self.buffer);
        self.energy.look();
        self.samples += 1;
    }

    /// Called on the watching thread, whose CPU time is counted.
    pub(crate) fn end(mut self) -> SensorSummary {
        self.cpu.look(&mut self.buffer);
        let shares = self.cpu.shares();
        SensorSummary {
            duration_s: self.begin.elapsed().as_secs_f64(),
            samples: self.samples,
            temperature: self.temperature.end(),
            frequency: self.frequency.end(),
            throttle_events: self.throttle.end(),
            energy: self.energy.end(),
            cpu_pct: shares.clone().map(|(mean, _)| mean.busy_pct),
            steal_pct: shares.map(|(mean, _)| mean.steal_pct),
            pressure: self.pressure.end(&mut self.buffer),
            own_cpu_ns: self.begin_cpu_ns + thread_cpu_ns(),
        }
    }
}
