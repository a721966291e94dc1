/// What hears how far building has come.
pub trait BuildListener {
    /// This share of the raw records has been turned into tables.
    fn building(&mut self, done: f64);
}

/// No listener.
pub struct NoListener;

impl BuildListener for NoListener {
    fn building(&mut self, _: f64) {}
}
