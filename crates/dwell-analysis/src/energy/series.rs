//! What each meter had added up, by time.

use dwell_events::{EnergyMeterName, EnergyPart};

use super::spans::Span;

/// What each meter had added up, by time.
#[derive(Clone, Debug, Default)]
pub struct EnergySeries {
    meters: Vec<MeterSeries>,
}

/// What one meter had added up.
#[derive(Clone, Debug)]
pub(super) struct MeterSeries {
    pub(super) name: EnergyMeterName,
    /// Times in rising order, and joules since the first.
    points: Vec<(u64, f64)>,
    /// Points before the run began.
    idle_points: usize,
}

impl EnergySeries {
    /// Adds what a meter said; the times of each meter rise, and those before the run come first.
    pub fn push(&mut self, name: &EnergyMeterName, timestamp_ns: u64, joules: f64, is_idle: bool) {
        let place = self.meters.iter().position(|meter| meter.name == *name).unwrap_or_else(|| {
            self.meters.push(MeterSeries { name: name.clone(), points: Vec::new(), idle_points: 0 });
            self.meters.len() - 1
        });
        let meter = &mut self.meters[place];
        meter.points.push((timestamp_ns, joules));
        if is_idle {
            meter.idle_points = meter.points.len();
        }
    }

    /// Whether no meter said anything.
    pub fn is_empty(&self) -> bool {
        self.meters.is_empty()
    }

    pub(super) fn meters(&self) -> &[MeterSeries] {
        &self.meters
    }

    /// The meters whose sum is the energy of the machine, as far as it is known: parts that do not overlap, else the one that
    /// covers all of them.
    pub(super) fn counted(&self) -> Vec<&MeterSeries> {
        let of = |parts: &[EnergyPart]| -> Vec<&MeterSeries> {
            self.meters.iter().filter(|meter| parts.contains(&meter.name.part)).collect()
        };
        let choices = [
            of(&[EnergyPart::Processor, EnergyPart::Memory, EnergyPart::Gpu]),
            of(&[EnergyPart::Platform]),
            of(&[EnergyPart::Battery]),
        ];
        choices.into_iter().find(|meters| !meters.is_empty()).unwrap_or_default()
    }
}

impl MeterSeries {
    /// From the first sample of the run, which is the last before it if there is one, to the last.
    pub(super) fn run_span(&self) -> Option<Span> {
        let begin = self.points.get(self.idle_points.saturating_sub(1))?.0;
        Some(begin..self.points.last()?.0)
    }

    /// Mean power before the run, and over what time.
    pub(super) fn idle(&self) -> Option<(f64, f64)> {
        let (first, last) = (self.points.first()?, self.points.get(self.idle_points.checked_sub(1)?)?);
        let seconds = last.0.saturating_sub(first.0) as f64 / 1e9;
        (seconds > 0.0).then(|| ((last.1 - first.1) / seconds, seconds))
    }

    /// Energy in a span, by straight lines between samples; none without two samples.
    pub(super) fn joules_in(&self, span: &Span) -> Option<f64> {
        (self.points.len() > 1).then(|| self.joules_at(span.end) - self.joules_at(span.start))
    }

    /// Before the first sample and after the last one, what those say.
    fn joules_at(&self, time_ns: u64) -> f64 {
        let after = self.points.partition_point(|&(timestamp_ns, _)| timestamp_ns < time_ns);
        match (after.checked_sub(1).map(|before| self.points[before]), self.points.get(after)) {
            (Some((from_ns, from)), Some(&(to_ns, to))) => {
                let share = (time_ns - from_ns) as f64 / (to_ns - from_ns) as f64;
                from + (to - from) * share
            }
            (Some((_, joules)), None) | (None, Some(&(_, joules))) => joules,
            (None, None) => 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use dwell_events::EnergyBasis;

    use super::*;

    fn name(source: &str, part: EnergyPart) -> EnergyMeterName {
        EnergyMeterName { source: source.to_owned(), part, basis: EnergyBasis::Counter }
    }

    fn series(points: &[(u64, f64, bool)]) -> EnergySeries {
        let mut series = EnergySeries::default();
        for &(seconds, joules, is_idle) in points {
            series.push(&name("m", EnergyPart::Gpu), seconds * 1_000_000_000, joules, is_idle);
        }
        series
    }

    #[test]
    fn energy_between_samples_lies_on_a_straight_line_and_nothing_is_made_up_outside() {
        let series = series(&[(1, 0.0, true), (3, 20.0, true), (5, 120.0, false)]);
        let meter = &series.meters()[0];
        let joules = |from: u64, to: u64| meter.joules_in(&(from * 1_000_000_000..to * 1_000_000_000));
        assert_eq!(joules(1, 2), Some(10.0));
        assert_eq!(joules(2, 4), Some(60.0));
        assert_eq!(joules(0, 9), Some(120.0));
        assert_eq!(meter.idle(), Some((10.0, 2.0)));
        assert_eq!(meter.run_span(), Some(3_000_000_000..5_000_000_000));
    }

    #[test]
    fn one_sample_says_nothing() {
        let series = series(&[(1, 0.0, false)]);
        assert_eq!(series.meters()[0].joules_in(&(0..9)), None);
        assert_eq!(series.meters()[0].idle(), None);
    }

    #[test]
    fn what_overlaps_is_not_added_up() {
        let mut series = EnergySeries::default();
        let names = |series: &EnergySeries| -> Vec<String> {
            series.counted().iter().map(|meter| meter.name.source.clone()).collect()
        };
        series.push(&name("sensor", EnergyPart::Sensor), 1, 0.0, false);
        assert!(names(&series).is_empty());
        series.push(&name("battery", EnergyPart::Battery), 1, 0.0, false);
        assert_eq!(names(&series), ["battery"]);
        series.push(&name("psys", EnergyPart::Platform), 1, 0.0, false);
        assert_eq!(names(&series), ["psys"]);
        for (source, part) in [
            ("package", EnergyPart::Processor),
            ("core", EnergyPart::InsideProcessor),
            ("dram", EnergyPart::Memory),
            ("gpu", EnergyPart::Gpu),
        ] {
            series.push(&name(source, part), 1, 0.0, false);
        }
        assert_eq!(names(&series), ["package", "dram", "gpu"]);
    }
}
