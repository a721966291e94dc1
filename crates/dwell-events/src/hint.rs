/// What to do about an error, apart from what went wrong.
///
/// Each hint is one line that a user can act on, usually a command to paste. The message of the error itself
/// never repeats it.
pub trait Hint {
    /// The remedies for this error, best first; empty if there is none to give.
    fn hints(&self) -> Vec<String>;
}
