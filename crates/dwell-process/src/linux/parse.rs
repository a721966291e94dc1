//! The text of procfs files. Fields that are missing are `None`; text that makes no sense gives no fields.

/// Ticks per second of the CPU times in `stat`: the kernel's `USER_HZ`, 100 on every architecture in use.
const USER_HZ: u64 = 100;
/// One tick.
pub(crate) const NS_PER_TICK: u64 = 1_000_000_000 / USER_HZ;

/// From `/proc/<pid>/stat`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    /// `Z` and `X` are ended processes.
    pub(crate) state: u8,
    pub(crate) parent: u32,
    pub(crate) minor_faults: u64,
    pub(crate) major_faults: u64,
    /// User and system time of all threads, those that ended included, each rounded down to 10 ms.
    pub(crate) cpu_floor_ns: u64,
    pub(crate) threads: u32,
}

/// From `/proc/<pid>/status`. A process without memory of its own has no sizes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Status {
    pub(crate) vms_bytes: Option<u64>,
    pub(crate) rss_bytes: Option<u64>,
    pub(crate) anon_bytes: Option<u64>,
    pub(crate) file_bytes: Option<u64>,
    pub(crate) shmem_bytes: Option<u64>,
    pub(crate) swap_bytes: Option<u64>,
}

/// From `/proc/<pid>/io`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Io {
    pub(crate) read_bytes: Option<u64>,
    pub(crate) write_bytes: Option<u64>,
}

/// From `/proc/<pid>/smaps_rollup`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Rollup {
    pub(crate) pss_bytes: Option<u64>,
    pub(crate) uss_bytes: Option<u64>,
}

pub(crate) fn stat(text: &[u8]) -> Option<Stat> {
    // The name of the program stands in parentheses and may contain anything, parentheses too.
    let after_name = text.iter().rposition(|&byte| byte == b')')? + 1;
    let mut fields = text[after_name..].split(|&byte| byte == b' ').filter(|field| !field.is_empty());
    // Numbered from 3 in proc(5).
    let state = *fields.next()?.first()?;
    let parent = u32::try_from(number(fields.next()?)?).ok()?;
    let minor_faults = number(fields.nth(5)?)?;
    let major_faults = number(fields.nth(1)?)?;
    let user_ticks = number(fields.nth(1)?)?;
    let system_ticks = number(fields.next()?)?;
    let threads = u32::try_from(number(fields.nth(4)?)?).ok()?;
    let cpu_floor_ns = user_ticks.checked_add(system_ticks)?.checked_mul(NS_PER_TICK)?;
    Some(Stat { state, parent, minor_faults, major_faults, cpu_floor_ns, threads })
}

/// Name of the program, from the same text.
pub(crate) fn name(text: &[u8]) -> Option<&[u8]> {
    let begin = text.iter().position(|&byte| byte == b'(')? + 1;
    let end = text.iter().rposition(|&byte| byte == b')')?;
    text.get(begin..end)
}

pub(crate) fn status(text: &[u8]) -> Status {
    let mut status = Status::default();
    for (name, value) in entries(text) {
        let field = match name {
            b"VmSize" => &mut status.vms_bytes,
            b"VmRSS" => &mut status.rss_bytes,
            b"RssAnon" => &mut status.anon_bytes,
            b"RssFile" => &mut status.file_bytes,
            b"RssShmem" => &mut status.shmem_bytes,
            b"VmSwap" => &mut status.swap_bytes,
            // What follows the sizes is of no interest and is half of the text.
            b"Threads" => break,
            _ => continue,
        };
        *field = kib(value);
    }
    status
}

/// Parent of a process, from its `status`; none for one of its further threads.
pub(crate) fn parent_of_leader(text: &[u8]) -> Option<u32> {
    let field = |name: &[u8]| entries(text).find(|(found, _)| *found == name).and_then(|(_, value)| number(value));
    (field(b"Tgid")? == field(b"Pid")?).then(|| field(b"PPid")).flatten().and_then(|parent| u32::try_from(parent).ok())
}

/// The id that was last given to a process or thread: the last number of `/proc/loadavg`. Some systems make that file
/// up and have 0 there.
pub(crate) fn last_pid(text: &[u8]) -> Option<u32> {
    let pid = number(text.trim_ascii_end().rsplit(|&byte| byte == b' ').next()?)?;
    u32::try_from(pid).ok().filter(|&pid| pid > 0)
}

pub(crate) fn io(text: &[u8]) -> Io {
    let mut io = Io::default();
    for (name, value) in entries(text) {
        match name {
            b"read_bytes" => io.read_bytes = number(value),
            b"write_bytes" => io.write_bytes = number(value),
            _ => {}
        }
    }
    io
}

pub(crate) fn rollup(text: &[u8]) -> Rollup {
    let mut rollup = Rollup::default();
    for (name, value) in entries(text) {
        match name {
            b"Pss" => rollup.pss_bytes = kib(value),
            b"Private_Clean" | b"Private_Dirty" | b"Private_Hugetlb" => {
                rollup.uss_bytes = kib(value).map(|bytes| bytes + rollup.uss_bytes.unwrap_or(0));
            }
            _ => {}
        }
    }
    rollup
}

/// Nanoseconds on a CPU: the first number of a `schedstat`.
pub(crate) fn run_ns(text: &[u8]) -> Option<u64> {
    number(text.split(|&byte| byte == b' ').next()?)
}

/// `Name: value` lines.
fn entries(text: &[u8]) -> impl Iterator<Item = (&[u8], &[u8])> {
    text.split(|&byte| byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|&byte| byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    })
}

/// `1234 kB` in bytes.
fn kib(value: &[u8]) -> Option<u64> {
    number(value.strip_suffix(b" kB")?)?.checked_mul(1024)
}

pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    str::from_utf8(digits.trim_ascii()).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_name_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let text = b"42 (a b) c) R 1 2 3 4 5 6 700 8 90 10 150 25 0 0 20 0 12 0 99 1000 5 18446744073709551615\n";
        let expected = Stat {
            state: b'R',
            parent: 1,
            minor_faults: 700,
            major_faults: 90,
            cpu_floor_ns: 1_750_000_000,
            threads: 12,
        };
        assert_eq!(stat(text), Some(expected));
        assert_eq!(name(text), Some(&b"a b) c"[..]));
    }

    #[test]
    fn cut_or_empty_text_gives_no_fields() {
        let whole = b"42 (cat) R 1 2 3 4 5 6 700 8 90 10 150 25 0 0 20 0 12 0 99";
        (0..52).for_each(|length| assert_eq!(stat(&whole[..length]), None, "{length}"));
        assert_eq!(status(b""), Status::default());
        assert_eq!(io(b"read_bytes: x\n"), Io::default());
        assert_eq!(run_ns(b""), None);
        assert_eq!((name(b""), name(b")(")), (None, None));
    }

    #[test]
    fn threads_have_no_parent_of_their_own() {
        let leader = b"Name:\tcat\nTgid:\t42\nNgid:\t0\nPid:\t42\nPPid:\t7\nTracerPid:\t0\n";
        assert_eq!(parent_of_leader(leader), Some(7));
        let thread = b"Name:\tcat\nTgid:\t42\nNgid:\t0\nPid:\t43\nPPid:\t7\nTracerPid:\t0\n";
        assert_eq!(parent_of_leader(thread), None);
    }

    #[test]
    fn a_made_up_loadavg_has_no_last_pid() {
        assert_eq!(last_pid(b"0.04 0.87 1.42 2/97 32246\n"), Some(32_246));
        assert_eq!(last_pid(b"0.00 0.00 0.00 0/0 0\n"), None);
        assert_eq!(last_pid(b""), None);
    }

    #[test]
    fn sizes_are_bytes() {
        let text =
            b"Name:\tcat\nVmSize:\t    2000 kB\nVmRSS:\t     8 kB\nRssAnon:\t  4 kB\nThreads:\t1\nVmSwap:\t9 kB\n";
        let found = status(text);
        assert_eq!((found.vms_bytes, found.rss_bytes, found.anon_bytes), (Some(2_048_000), Some(8192), Some(4096)));
        assert_eq!((found.file_bytes, found.swap_bytes), (None, None));
    }

    #[test]
    fn memory_of_its_own_is_private_clean_and_dirty_together() {
        let text = b"55-7f ---p 00 00:00 0 [rollup]\nRss: 9 kB\nPss:    7 kB\nPss_Dirty: 1 kB\nPrivate_Clean: 2 kB\nPrivate_Dirty: 3 kB\n";
        assert_eq!(rollup(text), Rollup { pss_bytes: Some(7 << 10), uss_bytes: Some(5 << 10) });
    }
}
