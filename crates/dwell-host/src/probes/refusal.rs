//! What the kernel means when it refuses.

use std::io;

/// A system call that failed, in words: its name, the error's name, what that means.
pub(super) fn refused(call: &str, error: &io::Error) -> String {
    match error.raw_os_error().and_then(named) {
        Some((name, meaning)) => format!("{call} was refused with {name}: {meaning}"),
        None => format!("{call} failed with {error}"),
    }
}

/// Whether the user, and not the kernel, lacks something.
pub(super) fn is_forbidden(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EPERM | libc::EACCES))
}

fn named(code: i32) -> Option<(&'static str, &'static str)> {
    Some(match code {
        libc::EPERM => ("EPERM", "this user or sandbox may not"),
        libc::EACCES => ("EACCES", "this user may not"),
        libc::ENOSYS => ("ENOSYS", "the kernel or the sandbox does not have it"),
        libc::ENOENT => ("ENOENT", "there is no such thing here"),
        libc::ENODEV => ("ENODEV", "there is no such hardware here"),
        libc::EOPNOTSUPP => ("EOPNOTSUPP", "the hardware cannot do it"),
        libc::EINVAL => ("EINVAL", "the kernel does not know what was asked for"),
        libc::ENOTTY => ("ENOTTY", "the kernel is too old for it"),
        libc::EMFILE => ("EMFILE", "too many files are open"),
        libc::EBUSY => ("EBUSY", "another program has it"),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_are_named_and_explained() {
        let error = io::Error::from_raw_os_error(libc::EPERM);
        assert_eq!(refused("bpf", &error), "bpf was refused with EPERM: this user or sandbox may not");
        assert!(is_forbidden(&error));
        let other = io::Error::from_raw_os_error(libc::EIO);
        assert!(refused("bpf", &other).starts_with("bpf failed with "));
        assert!(!is_forbidden(&other));
    }
}
