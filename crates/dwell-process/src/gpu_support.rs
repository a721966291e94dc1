/// Whether memory on GPUs can be sampled here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GpuSupport {
    /// There is no NVIDIA driver.
    NoDriver,
    /// There is one, and it does not answer.
    Unusable(String),
    /// It answers for this many GPUs.
    Gpus(u32),
}
