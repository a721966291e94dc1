/// How many processors a list like `0-3,8` names; none if it is no such list.
pub(crate) fn count(list: &str) -> Option<u32> {
    let count_of = |part: &str| match part.split_once('-') {
        Some((first, last)) => last.trim().parse::<u32>().ok()?.checked_sub(first.trim().parse().ok()?)?.checked_add(1),
        None => part.trim().parse::<u32>().ok().map(|_| 1),
    };
    list.trim().split(',').map(count_of).sum()
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn ranges_and_single_processors_are_counted() {
        assert_eq!(count("0\n"), Some(1));
        assert_eq!(count("0-3,8,10-11"), Some(7));
        assert_eq!(count(""), None);
        assert_eq!(count("3-0"), None);
        assert_eq!(count("a-b"), None);
    }
}
