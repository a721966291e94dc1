//! Little-endian fields, taken one after the other.

/// The rest of a record. Every `take` is `None` past its end.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    #[inline]
    pub fn u64(&mut self) -> Option<u64> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*bytes))
    }

    #[inline]
    pub fn u32(&mut self) -> Option<u32> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_le_bytes(*bytes))
    }

    /// A `u64` if there is such a field at all, which a record's kind says, and else 0.
    #[inline]
    pub fn u64_if(&mut self, is_there: bool) -> Option<u64> {
        if is_there { self.u64() } else { Some(0) }
    }

    pub fn bytes(&mut self, count: u64) -> Option<&'a [u8]> {
        let (bytes, rest) = self.0.split_at_checked(usize::try_from(count).ok()?)?;
        self.0 = rest;
        Some(bytes)
    }

    #[inline]
    pub fn skip_u64s(&mut self, count: u64) -> Option<()> {
        self.bytes(count.checked_mul(8)?).map(drop)
    }

    /// A text behind its length in 4 bytes, as perf writes it into its header: padded with zero bytes.
    pub fn text(&mut self) -> Option<String> {
        let length = self.u32()?;
        Some(text_until_zero(self.bytes(length.into())?))
    }
}

/// The text before the first zero byte. Names of programs and files need not be UTF-8.
pub(super) fn text_until_zero(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}
