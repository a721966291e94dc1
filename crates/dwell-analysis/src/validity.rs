//! Validity: whether a run was disturbed, by the observer or by the machine.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Whether a run was disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ValidityClass {
    /// Nothing disturbed it.
    Clean,
    /// Something disturbed it a little.
    Marginal,
    /// Something disturbed it so much that its figures are not to be used.
    Contaminated,
    /// Something that could have disturbed it was not measured.
    Unknown,
}

impl ValidityClass {
    /// Every class.
    pub const ALL: [ValidityClass; 4] =
        [ValidityClass::Clean, ValidityClass::Marginal, ValidityClass::Contaminated, ValidityClass::Unknown];

    /// The name used in tables and files.
    pub fn name(self) -> &'static str {
        match self {
            ValidityClass::Clean => "clean",
            ValidityClass::Marginal => "marginal",
            ValidityClass::Contaminated => "contaminated",
            ValidityClass::Unknown => "unknown",
        }
    }

    /// The class with this name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }
}

/// What a run is judged by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Criterion {
    /// CPU time of the observer.
    ObserverCpuPct,
    /// Memory of the observer.
    ObserverMemoryShare,
    /// The processor slowed itself down.
    ThrottleEvents,
    /// What else the machine was doing.
    BaselineCpuPct,
    /// Heat of the processor.
    PackageTempPeakC,
}

impl Criterion {
    /// The name used in files: that of the field of [`ValidityInput`].
    pub fn name(self) -> &'static str {
        match self {
            Criterion::ObserverCpuPct => "observer_cpu_pct",
            Criterion::ObserverMemoryShare => "observer_memory_share",
            Criterion::ThrottleEvents => "throttle_events",
            Criterion::BaselineCpuPct => "baseline_cpu_pct",
            Criterion::PackageTempPeakC => "package_temp_peak_c",
        }
    }

    /// The name for people, and the unit that follows the number.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Criterion::ObserverCpuPct => ("observer CPU", " %"),
            Criterion::ObserverMemoryShare => ("observer memory share", ""),
            Criterion::ThrottleEvents => ("throttle events", ""),
            Criterion::BaselineCpuPct => ("baseline CPU", " %"),
            Criterion::PackageTempPeakC => ("package temperature", " °C"),
        }
    }

    fn limits(self) -> &'static Limits {
        match self {
            Criterion::ObserverCpuPct => &OBSERVER_CPU_PCT,
            Criterion::ObserverMemoryShare => &OBSERVER_MEMORY_SHARE,
            Criterion::ThrottleEvents => &THROTTLE_EVENTS,
            Criterion::BaselineCpuPct => &BASELINE_CPU_PCT,
            Criterion::PackageTempPeakC => &PACKAGE_TEMP_PEAK_C,
        }
    }
}

/// Up to where a figure leaves a run clean, and marginal.
struct Limits {
    clean: f64,
    marginal: f64,
    /// Whether the limit itself still counts as within.
    is_inclusive: bool,
}

const OBSERVER_CPU_PCT: Limits = Limits { clean: 10.0, marginal: 20.0, is_inclusive: false };
const OBSERVER_MEMORY_SHARE: Limits = Limits { clean: 0.05, marginal: 0.15, is_inclusive: false };
const THROTTLE_EVENTS: Limits = Limits { clean: 0.0, marginal: 2.0, is_inclusive: true };
const BASELINE_CPU_PCT: Limits = Limits { clean: 15.0, marginal: 30.0, is_inclusive: false };
const PACKAGE_TEMP_PEAK_C: Limits = Limits { clean: 85.0, marginal: 90.0, is_inclusive: true };

/// Share of the machine's available memory from which on the observer's memory can disturb a run. An observer of 20 MB is
/// half as large as the process of a tiny model, and takes nothing that the process could have used.
pub const RELEVANT_MACHINE_SHARE: f64 = 0.01;

impl Limits {
    fn holds(&self, limit: f64, found: f64) -> bool {
        found < limit || (self.is_inclusive && found == limit)
    }

    /// The class, and the limit that was passed if it is not clean.
    fn judge(&self, found: f64) -> (ValidityClass, f64) {
        if self.holds(self.clean, found) {
            (ValidityClass::Clean, self.clean)
        } else if self.holds(self.marginal, found) {
            (ValidityClass::Marginal, self.clean)
        } else {
            (ValidityClass::Contaminated, self.marginal)
        }
    }
}

/// What was measured of the disturbances of a run. None, a negative number and one that is not finite all mean that
/// it is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ValidityInput {
    /// CPU time of the observer by wall time, mean over the run; 100 is one core.
    pub observer_cpu_pct: Option<f64>,
    /// Highest resident memory of the observer by that of the observed process.
    pub observer_memory_share: Option<f64>,
    /// The same by the memory that the machine had available before the run. Below [`RELEVANT_MACHINE_SHARE`], the share
    /// above does not count; none if it is not known.
    pub observer_machine_memory_share: Option<f64>,
    /// How often the processor slowed itself down for heat during the run.
    pub throttle_events: Option<u64>,
    /// Load of the whole machine before the run, mean; 100 is all cores.
    pub baseline_cpu_pct: Option<f64>,
    /// Highest temperature of the processor package during the run.
    pub package_temp_peak_c: Option<f64>,
    /// Whether the observer wrote much; only judged by [`classify_as_mrm_trace`].
    pub io_contention: Option<bool>,
}

impl ValidityInput {
    /// Whether the observer is known to take so little of the machine's memory that the observed process lacked none.
    fn is_observer_small(&self) -> bool {
        self.observer_machine_memory_share.is_some_and(|share| (0.0..RELEVANT_MACHINE_SHARE).contains(&share))
    }
}

/// Why a run is not clean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// What disturbed it, or was not measured.
    pub what: Criterion,
    /// The figure; none if it is not known.
    pub found: Option<f64>,
    /// The limit that the figure passed; the one for clean if it is not known.
    pub limit: f64,
    /// The best class that a run with this figure can have.
    pub lowers_to: ValidityClass,
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (words, unit) = self.what.words();
        let relation = if self.what.limits().is_inclusive { ">" } else { "≥" };
        let limit = self.limit;
        let Some(found) = self.found else { return write!(formatter, "{words} not known") };
        // Digits beyond the third say nothing about a disturbance, except next to the limit.
        let rounded = [three_digits(found), (found * 1000.0).round() / 1000.0];
        let shown = rounded.into_iter().find(|shown| *shown != limit).unwrap_or(found);
        write!(formatter, "{words} {shown}{unit} {relation} {limit}{unit}")
    }
}

/// Rounded to three digits, or to a whole number if it has more.
fn three_digits(value: f64) -> f64 {
    let places = (2.0 - value.abs().log10().floor()).clamp(0.0, 9.0);
    let scale = 10_f64.powf(places);
    (value * scale).round() / scale
}

/// Whether a run was disturbed, and by what.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Validity {
    /// The class.
    pub class: ValidityClass,
    /// Everything that keeps it from being clean.
    pub reasons: Vec<Reason>,
    /// What was left out of the judgement on demand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<Criterion>,
}

impl Validity {
    /// Judges a run. With `ignore_throttle` the throttle events do not count, and `ignored` says so.
    ///
    /// Each figure is judged alone; the observer's memory only if it is a relevant part of the machine's. One that contaminates decides; else one that is not known; else the worst. A
    /// temperature that is not known is no reason: heat matters by its effect, which the throttle events count.
    pub fn of(input: &ValidityInput, ignore_throttle: bool) -> Self {
        let mut reasons = Vec::new();
        for (what, figure) in figures(input) {
            if (what == Criterion::ThrottleEvents && ignore_throttle)
                || (what == Criterion::ObserverMemoryShare && input.is_observer_small())
            {
                continue;
            }
            let found = figure.filter(|figure| figure.is_finite() && *figure >= 0.0);
            reasons.extend(reason(what, found));
        }
        let lowers_to = |class| reasons.iter().any(|reason| reason.lowers_to == class);
        let class = [ValidityClass::Contaminated, ValidityClass::Unknown, ValidityClass::Marginal]
            .into_iter()
            .find(|&class| lowers_to(class))
            .unwrap_or(ValidityClass::Clean);
        let ignored = if ignore_throttle { vec![Criterion::ThrottleEvents] } else { Vec::new() };
        Self { class, reasons, ignored }
    }
}

fn figures(input: &ValidityInput) -> [(Criterion, Option<f64>); 5] {
    [
        (Criterion::ObserverCpuPct, input.observer_cpu_pct),
        (Criterion::ObserverMemoryShare, input.observer_memory_share),
        (Criterion::ThrottleEvents, input.throttle_events.map(|events| events as f64)),
        (Criterion::BaselineCpuPct, input.baseline_cpu_pct),
        (Criterion::PackageTempPeakC, input.package_temp_peak_c),
    ]
}

fn reason(what: Criterion, found: Option<f64>) -> Option<Reason> {
    let limits = what.limits();
    let Some(figure) = found else {
        let is_needed = what != Criterion::PackageTempPeakC;
        return is_needed.then_some(Reason { what, found, limit: limits.clean, lowers_to: ValidityClass::Unknown });
    };
    let (lowers_to, limit) = limits.judge(figure);
    (lowers_to != ValidityClass::Clean).then_some(Reason { what, found, limit, lowers_to })
}

/// The class that mrm-trace 0.1.23 gives (`classify_run`): what is not known counts as 0, and the observer's writing
/// contaminates.
pub fn classify_as_mrm_trace(input: &ValidityInput) -> ValidityClass {
    let has_io_contention = input.io_contention.unwrap_or(false);
    let classes = figures(input).map(|(what, figure)| {
        let found = figure.unwrap_or(0.0);
        let limits = what.limits();
        // Its test for clean asks whether a limit is passed, its test for marginal whether it is kept.
        let is_passed = if limits.is_inclusive { found > limits.clean } else { found >= limits.clean };
        (!is_passed, limits.holds(limits.marginal, found))
    });
    if !has_io_contention && classes.iter().all(|(is_clean, _)| *is_clean) {
        ValidityClass::Clean
    } else if !has_io_contention && classes.iter().all(|(_, is_marginal)| *is_marginal) {
        ValidityClass::Marginal
    } else {
        ValidityClass::Contaminated
    }
}
