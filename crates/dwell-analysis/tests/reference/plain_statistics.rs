//! Statistics of plain lists.

/// The smallest value at or below which this share of the values lies.
pub fn quantile(values: &[f64], share: f64) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let wanted = share * sorted.len() as f64;
    (1..=sorted.len()).find(|&reached| reached as f64 >= wanted).map(|reached| sorted[reached - 1])
}

pub fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

pub fn largest(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::max)
}

/// The median of a sorted list: the middle, or the mean of the two values there.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

pub fn share(part: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| part / whole)
}

/// A duration, and whether it was still going on when the trace ended.
pub type Duration = (f64, bool);

/// The share that lasts longer than each duration at which any ended (Kaplan–Meier).
fn survival(durations: &[Duration]) -> Vec<(f64, f64)> {
    let mut times: Vec<f64> = durations.iter().map(|(time, _)| *time).collect();
    times.sort_by(f64::total_cmp);
    times.dedup();
    let mut surviving = 1.0;
    let point = |time: f64| {
        let at_risk = durations.iter().filter(|(known, _)| *known >= time).count() as f64;
        let ended = durations.iter().filter(|(known, is_open)| *known == time && !is_open).count() as f64;
        surviving *= (at_risk - ended) / at_risk;
        (time, surviving)
    };
    times.into_iter().map(point).collect()
}

/// The duration that this share does not exceed; none if so few ended that it was not reached.
pub fn lasting_quantile(durations: &[Duration], share: f64) -> Option<f64> {
    if durations.iter().all(|(_, is_open)| !is_open) {
        return quantile(&durations.iter().map(|(time, _)| *time).collect::<Vec<_>>(), share);
    }
    let left = (1.0 - share) * (1.0 + 1e-9);
    survival(durations).into_iter().find(|(_, surviving)| *surviving <= left).map(|(time, _)| time)
}

/// The mean, as far as the longest duration that was seen.
pub fn lasting_mean(durations: &[Duration]) -> Option<f64> {
    let (mut sum, mut from, mut surviving) = (0.0, 0.0, 1.0);
    for (time, after) in survival(durations) {
        sum += surviving * (time - from);
        (from, surviving) = (time, after);
    }
    (!durations.is_empty()).then_some(sum)
}
