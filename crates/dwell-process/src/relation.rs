/// A process and the one that began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Relation {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
}
