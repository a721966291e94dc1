//! What the machine does while a run goes on.

mod energy;
mod frequency;
mod range;
mod temperature;
mod throttle;

use std::time::{Duration, Instant};

use dwell_clock::thread_cpu_ns;
use dwell_events::host::SensorSummary;
use dwell_process::{PacedThread, Rhythm};

use crate::cpu_times::CpuWatch;
use crate::error::HostError;
use crate::pressure::PressureWatch;
use crate::root::Root;

pub(crate) use energy::EnergyWatch;
pub(crate) use frequency::FrequencyWatch;
pub(crate) use temperature::TemperatureWatch;
pub(crate) use throttle::ThrottleWatch;

/// Watches the sensors on a thread of its own. Dropped without [`SensorThread::stop`], it stops all the same.
pub struct SensorThread {
    thread: PacedThread<SensorSummary>,
}

impl SensorThread {
    /// Takes the first sample before it returns, then one at every interval.
    pub fn start(root: &Root, interval: Duration) -> Result<Self, HostError> {
        if interval.is_zero() {
            return Err(HostError::ZeroInterval);
        }
        let watches = Watches::begin(root);
        let thread = PacedThread::start("dwell-sensors", interval, move |rhythm| watch(watches, rhythm))
            .map_err(|source| HostError::NoThread { source })?;
        Ok(Self { thread })
    }

    /// Takes the last sample and says what was seen.
    pub fn stop(mut self) -> SensorSummary {
        self.thread.stop().unwrap_or_default()
    }
}

fn watch(mut watches: Watches, mut rhythm: Rhythm) -> SensorSummary {
    loop {
        rhythm.wait();
        let is_last = rhythm.is_over();
        watches.look();
        if is_last {
            return watches.end();
        }
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
