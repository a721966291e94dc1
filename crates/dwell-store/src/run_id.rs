use rustix::rand::{GetRandomFlags, getrandom};

use crate::utc::{unix_secs_now, utc_file_name};

/// A new run id: `YYYYMMDDTHHMMSSZ-<6 hex digits>`. Sorts by time; the digits are random.
///
/// Two ids of the same second differ but for one chance in sixteen million, and
/// [`RunDir::create`](crate::RunDir::create) refuses a directory that exists.
pub fn new_run_id() -> String {
    format!("{}-{:06x}", utc_file_name(unix_secs_now()), random_u24())
}

fn random_u24() -> u32 {
    let mut bytes = [0_u8; 4];
    // Small requests are never cut short or interrupted; a kernel without the call leaves the process id and the
    // clock to tell runs apart.
    match getrandom(&mut bytes, GetRandomFlags::empty()) {
        Ok(filled) if filled == bytes.len() => u32::from_le_bytes(bytes) & 0xff_ffff,
        _ => clock_u24(),
    }
}

fn clock_u24() -> u32 {
    // The lowest bits are the ones that differ between two runs of one second.
    (dwell_clock::unix_ns() as u32 ^ std::process::id().rotate_left(12)) & 0xff_ffff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn run_ids_differ_and_sort_by_time() {
        let ids: Vec<String> = (0..100).map(|_| new_run_id()).collect();
        let distinct: std::collections::HashSet<&String> = ids.iter().collect();
        assert_eq!(distinct.len(), ids.len());
        assert!(ids.iter().all(|id| id.len() == 23 && id.as_bytes()[8] == b'T' && id.as_bytes()[15] == b'Z'));
        assert!(utc_file_name(1_000_000_000) < utc_file_name(1_000_000_001));
    }
}
