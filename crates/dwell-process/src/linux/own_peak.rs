/// The most memory that this process has had resident at any time, by the kernel's account; samples can miss the peak.
pub fn own_peak_rss_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok().map(|kibibytes| kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_peak_stays_after_memory_is_given_back() {
        const BYTES: usize = 64 << 20;
        let before = own_peak_rss_bytes().unwrap();
        drop(std::hint::black_box(vec![1_u8; BYTES]));
        assert!(own_peak_rss_bytes().unwrap() >= (BYTES as u64).max(before));
    }
}
