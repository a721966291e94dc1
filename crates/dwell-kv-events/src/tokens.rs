//! Token ids tell what was said. Unless they are asked for, only a salted hash of them is kept.

use std::fmt::Write as _;

use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};

/// What is kept of the token ids of a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TokenPolicy {
    /// A hash: the same tokens have the same hash, and without the salt nobody can try out which tokens they were.
    Hash {
        /// What is hashed before them.
        salt: Vec<u8>,
    },
    /// The token ids.
    Keep,
}

impl TokenPolicy {
    /// A hash with a salt that nobody knows afterwards.
    pub fn hash_with_random_salt() -> std::io::Result<Self> {
        let mut salt = vec![0; 32];
        let mut filled = 0;
        while filled < salt.len() {
            filled += getrandom(&mut salt[filled..], GetRandomFlags::empty())?;
        }
        Ok(Self::Hash { salt })
    }
}

/// What is kept of the tokens of one block.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct KeptTokens {
    pub(crate) hash: Option<u64>,
    pub(crate) ids: Option<String>,
}

impl KeptTokens {
    pub(crate) fn of(tokens: Option<&[i64]>, policy: &TokenPolicy) -> Self {
        let Some(tokens) = tokens else { return Self::default() };
        match policy {
            TokenPolicy::Hash { salt } => Self { hash: Some(salted_hash(tokens, salt)), ids: None },
            TokenPolicy::Keep => Self { hash: None, ids: Some(listed(tokens)) },
        }
    }
}

/// The first 8 bytes of SHA-256 over the salt and the ids, each as 8 bytes; all big-endian.
fn salted_hash(tokens: &[i64], salt: &[u8]) -> u64 {
    let mut hasher = Sha256::new_with_prefix(salt);
    for token in tokens {
        hasher.update(token.to_be_bytes());
    }
    let digest = hasher.finalize();
    digest.iter().take(8).fold(0, |hash, &byte| hash << 8 | u64::from(byte))
}

fn listed(tokens: &[i64]) -> String {
    let mut text = String::with_capacity(tokens.len() * 6);
    for token in tokens {
        let separator = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{separator}{token}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_that_of_sha_256() {
        // printf 'salt\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\2' | sha256sum
        assert_eq!(salted_hash(&[1, 2], b"salt"), 0xd338_7361_76f6_1e14);
    }

    #[test]
    fn the_salt_decides_and_a_random_one_is_another_each_time() {
        assert_ne!(salted_hash(&[1, 2], b"a"), salted_hash(&[1, 2], b"b"));
        assert_ne!(TokenPolicy::hash_with_random_salt().unwrap(), TokenPolicy::hash_with_random_salt().unwrap());
    }

    #[test]
    fn kept_ids_stand_side_by_side() {
        assert_eq!(KeptTokens::of(Some(&[5, -1, 70000]), &TokenPolicy::Keep).ids.unwrap(), "5 -1 70000");
        assert_eq!(KeptTokens::of(None, &TokenPolicy::Keep), KeptTokens::default());
    }
}
