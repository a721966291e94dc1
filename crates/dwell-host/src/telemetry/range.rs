/// First, last, least, greatest and mean of the values that came.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Range {
    count: u64,
    sum: f64,
    pub(super) first: f64,
    pub(super) last: f64,
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Range {
    pub(super) fn add(&mut self, value: f64) {
        if self.count == 0 {
            *self = Self { count: 0, sum: 0.0, first: value, last: value, min: value, max: value };
        }
        self.count += 1;
        self.sum += value;
        self.last = value;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
    }

    /// None if no value came.
    pub(super) fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum / self.count as f64)
    }
}
