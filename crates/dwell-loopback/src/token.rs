//! The secret of one start of a server.

use rustix::rand::{GetRandomFlags, getrandom};
use sha2::{Digest, Sha256};

use crate::LoopbackError;

/// 128 random bits, as hexadecimal digits.
pub struct Token(String);

impl Token {
    /// A new one.
    pub fn new() -> Result<Self, LoopbackError> {
        let mut random = [0_u8; 16];
        getrandom(&mut random, GetRandomFlags::empty())
            .map_err(|error| LoopbackError::Start { source: error.into() })?;
        Ok(Self(random.iter().map(|byte| format!("{byte:02x}")).collect()))
    }

    /// Its digits, for the user who started the server.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Compares hashes, so that the time it takes says nothing of the token.
    pub fn is(&self, given: &str) -> bool {
        Sha256::digest(given) == Sha256::digest(&self.0)
    }
}
