/// CPU use between two moments, each with the CPU time until then; 100 is one core.
pub(crate) fn cpu_pct(before: Option<(u64, u64)>, now: (u64, u64)) -> Option<f64> {
    let (before_ns, before_cpu_ns) = before?;
    let wall_ns = now.0.checked_sub(before_ns).filter(|&wall_ns| wall_ns > 0)?;
    Some(now.1.checked_sub(before_cpu_ns)? as f64 / wall_ns as f64 * 100.0)
}
