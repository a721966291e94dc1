//! Pages that were made a moment ago.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

/// Bytes that are kept.
const MOST_BYTES: usize = 48 << 20;

/// The newest pages, by what was asked for.
#[derive(Default)]
pub(crate) struct PageCache(Mutex<VecDeque<CachedPage>>);

#[derive(Clone)]
struct CachedPage {
    request: String,
    version: String,
    json: Bytes,
}

impl PageCache {
    /// The page of a request, if it is of this version.
    pub(crate) fn get(&self, request: &str, version: &str) -> Option<Bytes> {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = pages.iter().position(|page| page.request == request && page.version == version)?;
        let page = pages.remove(place)?;
        pages.push_back(page.clone());
        Some(page.json)
    }

    /// Keeps a page, and forgets those that were not asked for in the longest time.
    pub(crate) fn put(&self, request: &str, version: &str, json: &Bytes) {
        let mut pages = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pages.retain(|page| page.request != request);
        pages.push_back(CachedPage { request: request.to_owned(), version: version.to_owned(), json: json.clone() });
        while pages.iter().map(|page| page.json.len()).sum::<usize>() > MOST_BYTES {
            pages.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_of_another_version_is_none_and_the_oldest_are_forgotten() {
        let (cache, large) = (PageCache::default(), Bytes::from(vec![b'x'; MOST_BYTES / 3]));
        cache.put("a", "1", &large);
        assert_eq!((cache.get("a", "1").is_some(), cache.get("a", "2").is_some()), (true, false));
        cache.put("b", "1", &large);
        cache.put("c", "1", &large);
        assert!(cache.get("a", "1").is_some(), "it fits, and is now the newest");
        cache.put("d", "1", &large);
        assert_eq!(["a", "b", "c", "d"].map(|name| cache.get(name, "1").is_some()), [true, false, true, true]);
    }
}
