//! One line of `perf script`.
//!
//! The columns that `builtin-script.c` prints, in its order; which of them are there depends on `-F`:
//!
//! ```text
//! comm pid/tid [cpu] misc time: period event: addr sym (dso) data_src |OP …|BLK … weight ins_lat ip sym (dso) phys_addr
//! ```
//!
//! The time is what every line has and nothing else looks like, so everything is found from there. A symbol may hold
//! spaces and parentheses; it ends where a parenthesis closes and nothing follows, or a number that is set as a column: to
//! the right of at least 16 places. In a text whose columns were squeezed, a word of hexadecimal digits without any of 0 to 9
//! begins a function (`add`, `a b c`).
//!
//! A text in another order is not guessed at: what perf never prints at a place is [`Reason::OtherOrder`].

use super::{Reason, ScriptSample};
use crate::data_source::DataSource;

/// Places of a column with an address.
pub(super) const COLUMN_PLACES: usize = 16;
/// No program has memory below: what `vm.mmap_min_addr` is set to. A smaller number is none of an address.
const LEAST_ADDRESS: u64 = 1 << 16;
/// Within so many bytes the time ends: the name of a program has 16 at most, and numbers are what else there is.
const MAX_HEAD_BYTES: usize = 256;

/// A sample, or why the line is none.
pub(super) fn parse<'a>(line: &'a [u8], chain: Option<&'a [u8]>) -> Result<ScriptSample<'a>, Reason> {
    let head = find_head(line).ok_or(Reason::NoTime)?;
    let time_ns = parse_time(head.time).ok_or(Reason::BadNumber)?;
    let mut sample = ScriptSample { time_ns, ..ScriptSample::default() };
    parse_head(&head, &mut sample)?;
    let mut rest = Text(head.rest);
    parse_event(&mut rest, &mut sample)?;
    match memchr::memchr(b'|', rest.0) {
        Some(bar) => parse_with_source(rest.0, bar, &mut sample)?,
        None => parse_without_source(rest, chain.is_some(), &mut sample)?,
    }
    if sample.event.is_empty() && has_event(rest.0) {
        return Err(Reason::OtherOrder);
    }
    if let Some(chain) = chain.filter(|_| sample.ip.is_none()) {
        let mut chain = Text(chain.trim_ascii_start());
        sample.ip = hex(chain.next());
        (sample.symbol, sample.dso, _) = function(chain.0)?;
    }
    Ok(sample)
}

/// What every line begins with.
struct Head<'a> {
    /// Everything before the time.
    before: &'a [u8],
    /// Where the last three words of that begin, the last one first; at the start of the line if there are fewer.
    words_at: [usize; 3],
    /// Without its colon.
    time: &'a [u8],
    rest: &'a [u8],
}

/// Finds the first word that is a time.
fn find_head(line: &[u8]) -> Option<Head<'_>> {
    let mut words_at = [0; 3];
    let mut rest = Text(&line[..line.len().min(MAX_HEAD_BYTES)]);
    loop {
        let word = rest.next();
        let end = line.len().min(MAX_HEAD_BYTES) - rest.0.len();
        let start = end - word.len();
        match word {
            [] => return None,
            [time @ .., b':'] if is_time(time) => {
                return Some(Head { before: &line[..start], words_at, time, rest: &line[end..] });
            }
            _ => words_at = [start, words_at[0], words_at[1]],
        }
    }
}

pub(super) fn is_time(word: &[u8]) -> bool {
    let dot = word.iter().position(|byte| *byte == b'.');
    dot.is_some_and(|dot| is_decimal(&word[..dot]) && is_decimal(&word[dot + 1..]))
}

/// Seconds and their fraction, which has 6 places, or 9 with `--ns`.
fn parse_time(text: &[u8]) -> Option<u64> {
    let dot = text.iter().position(|byte| *byte == b'.')?;
    time_ns(&text[..dot], &text[dot + 1..])
}

#[inline]
pub(super) fn time_ns(seconds: &[u8], fraction: &[u8]) -> Option<u64> {
    let places = u32::try_from(fraction.len()).ok().filter(|places| *places <= 9)?;
    let fraction_ns = decimal(fraction)? * 10_u64.pow(9 - places);
    decimal(seconds)?.checked_mul(1_000_000_000)?.checked_add(fraction_ns)
}

/// What stands before the time, from the right, because the name of the program may hold anything.
fn parse_head<'a>(head: &Head<'a>, sample: &mut ScriptSample<'a>) -> Result<(), Reason> {
    let mut before = head.before;
    let mut words_at = head.words_at.into_iter().peekable();
    let mut last_word = |before: &mut &'a [u8], is_wanted: &dyn Fn(&[u8]) -> bool| {
        let at = words_at.next_if(|at| *at < before.len() && is_wanted(before[*at..].trim_ascii_end()))?;
        let word = before[at..].trim_ascii_end();
        *before = &before[..at];
        Some(word)
    };
    // Flags of the record (`-F misc`), such as U for a program.
    let is_flags =
        |word: &[u8]| word.len() <= 8 && word.iter().all(u8::is_ascii_alphabetic) && head.has_number_before();
    last_word(&mut before, &is_flags);
    if let Some(word) = last_word(&mut before, &is_cpu) {
        let cpu = decimal(&word[1..word.len() - 1]).and_then(|cpu| u32::try_from(cpu).ok());
        sample.cpu = Some(cpu.ok_or(Reason::BadNumber)?);
    }
    if let Some(word) = last_word(&mut before, &|word| parse_threads(word).is_some()) {
        let (pid, tid) = parse_threads(word).ok_or(Reason::BadNumber)?;
        (sample.pid, sample.tid) = (pid, Some(tid));
    }
    sample.comm = before.trim_ascii();
    Ok(())
}

impl Head<'_> {
    /// Whether the last word but one is a processor or a thread.
    fn has_number_before(&self) -> bool {
        let [last_at, before_at, _] = self.words_at;
        let word = self.before[before_at..last_at].trim_ascii_end();
        is_cpu(word) || parse_threads(word).is_some()
    }
}

fn is_cpu(word: &[u8]) -> bool {
    matches!(word, [b'[', digits @ .., b']'] if is_decimal(digits))
}

/// `pid/tid`, or one number: the thread, which `perf script` prints unless it is told otherwise.
pub(super) fn parse_threads(word: &[u8]) -> Option<(Option<u32>, u32)> {
    let number = |text: &[u8]| u32::try_from(decimal(text)?).ok();
    match word.iter().position(|byte| *byte == b'/') {
        Some(slash) => Some((Some(number(&word[..slash])?), number(&word[slash + 1..])?)),
        None => Some((None, number(word)?)),
    }
}

/// Period and event, each only if it is printed.
fn parse_event<'a>(rest: &mut Text<'a>, sample: &mut ScriptSample<'a>) -> Result<(), Reason> {
    let mut ahead = *rest;
    let first = ahead.next();
    let (period, event) = if is_decimal(first) { (first, ahead.next()) } else { (&first[..0], first) };
    if first.starts_with(b"PERF_RECORD_") {
        return Err(Reason::OtherRecord);
    }
    let Some((b':', event)) = event.split_last() else { return Ok(()) };
    if !period.is_empty() {
        sample.period = Some(decimal(period).ok_or(Reason::BadNumber)?);
    }
    sample.event = text(event)?;
    *rest = ahead;
    Ok(())
}

/// Whether a word is an event with its colon. The bytes of an instruction (`-F insn`) have one too, and so may functions.
fn has_event(rest: &[u8]) -> bool {
    let mut words = Text(rest);
    loop {
        match words.next() {
            [] => return false,
            b"insn:" | b"ilen:" | b":" => {}
            [name @ .., b':'] if !name.ends_with(b":") && !name.contains(&b'(') => return true,
            _ => {}
        }
    }
}

/// A line with a data source: its number is the last word before the first bar, the address the first word there. Between
/// them perf prints nothing but the function or file of the address.
fn parse_with_source<'a>(rest: &'a [u8], bar: usize, sample: &mut ScriptSample<'a>) -> Result<(), Reason> {
    let before = rest[..bar].trim_ascii_end();
    let source_at = before.iter().rposition(|byte| *byte == b' ').map_or(0, |space| space + 1);
    sample.data_source = Some(DataSource(hex(&before[source_at..]).ok_or(Reason::NoDataSource)?));
    let mut between = Text(&before[..source_at]);
    sample.address = hex(between.next()).ok_or(Reason::NoAddress)?;
    if !between.is_empty() && !is_function_alone(between) {
        return Err(Reason::OtherOrder);
    }
    let last_bar = memchr::memrchr(b'|', &rest[bar..]).unwrap_or(0);
    let mut tail = Text(&rest[bar + last_bar + 1..]);
    // The words that the last part of the data source consists of; none of them could be a number.
    let mut ahead = tail;
    while !matches!(ahead.next(), [] | [b'0'..=b'9', ..]) && !is_hex(tail.peek()) {
        tail = ahead;
    }
    parse_tail(tail, sample)
}

/// Whether a text is the name of a function, its file, or both.
fn is_function_alone(mut rest: Text<'_>) -> bool {
    if rest.0.trim_ascii_end().ends_with(b":") || rest.column().is_some() {
        return false;
    }
    function(rest.0).is_ok_and(|(_, _, behind)| Text(behind).is_empty())
}

/// A line with nothing but addresses and what is there. If the instruction has a line of its own, this one is that of the
/// data.
fn parse_without_source<'a>(mut rest: Text<'a>, has_chain: bool, sample: &mut ScriptSample<'a>) -> Result<(), Reason> {
    let address = hex(rest.next()).ok_or(Reason::NoAddress)?;
    let is_followed_by_numbers = rest.is_empty() || { rest }.column().is_some();
    if is_followed_by_numbers || has_chain {
        sample.address = address;
        return if has_chain { Ok(()) } else { parse_tail(rest, sample) };
    }
    // The function or file of the address, as for page faults; if nothing follows, it is that of the instruction.
    let (_, _, behind) = function(rest.0)?;
    let mut tail = Text(behind);
    let ip = tail.column().filter(|_| !tail.is_empty()).ok_or(Reason::NoAddress)?;
    sample.address = address;
    parse_instruction(ip, tail.0, sample)
}

/// Weights, then the instruction. The last number before a function or file is the address of the instruction.
fn parse_tail<'a>(mut tail: Text<'a>, sample: &mut ScriptSample<'a>) -> Result<(), Reason> {
    let Some(first) = tail.column() else { return Ok(()) };
    let mut last = None;
    while let Some(next) = tail.column() {
        last = Some(next);
    }
    let has_function = !tail.is_empty();
    // Weights come before the address of the instruction, and that of the data before everything here.
    let is_address_first = !is_decimal(first) && last.is_some() && has_function;
    let is_address_last = sample.has_low_address() && !has_function && !is_decimal(last.unwrap_or(first));
    if is_address_first || is_address_last {
        return Err(Reason::OtherOrder);
    }
    if (last.is_some() || !has_function) && is_decimal(first) {
        sample.weight = Some(decimal(first).ok_or(Reason::BadNumber)?);
    }
    if has_function { parse_instruction(last.unwrap_or(first), tail.0, sample) } else { Ok(()) }
}

fn parse_instruction<'a>(ip: &[u8], rest: &'a [u8], sample: &mut ScriptSample<'a>) -> Result<(), Reason> {
    let ip = hex(ip).ok_or(Reason::BadNumber)?;
    if !may_be_instruction(ip) {
        return Err(Reason::OtherOrder);
    }
    sample.ip = Some(ip);
    (sample.symbol, sample.dso, _) = function(rest)?;
    Ok(())
}

impl ScriptSample<'_> {
    fn has_low_address(&self) -> bool {
        (1..LEAST_ADDRESS).contains(&self.address)
    }
}

/// Whether a number may be the address of an instruction; 0 stands for one that is not known.
#[inline]
pub(super) fn may_be_instruction(number: u64) -> bool {
    number == 0 || number >= LEAST_ADDRESS
}

/// Function and file, and what stands behind them.
pub(super) fn function(rest: &[u8]) -> Result<(&str, &str, &[u8]), Reason> {
    let end = end_of_function(rest);
    let (group, behind) = rest.split_at(end);
    let group = group.trim_ascii();
    let (symbol, dso) = match start_of_file(group) {
        Some(open) => (&group[..open], &group[open + 1..group.len() - 1]),
        None => (group, &group[..0]),
    };
    let known = |text: &'_ str| text != "[unknown]";
    let symbol = text(without_offset(symbol.trim_ascii_end()))?;
    let dso = text(dso)?;
    Ok((if known(symbol) { symbol } else { "" }, if known(dso) { dso } else { "" }, behind))
}

/// Where function and file end: behind a parenthesis that closes before a column or the end, else before a column.
fn end_of_function(rest: &[u8]) -> usize {
    let ends = |at: &usize| match rest.get(*at) {
        None => true,
        Some(b' ') => Text(&rest[*at..]).is_empty() || Text(&rest[*at..]).is_aligned_column(),
        Some(_) => false,
    };
    let closing = memchr::memchr_iter(b')', rest).map(|at| at + 1).find(ends);
    let text_at = rest.len() - rest.trim_ascii_start().len();
    let gap = || memchr::memmem::find(&rest[text_at..], b"  ").map_or(rest.len(), |gap| text_at + gap);
    closing.unwrap_or_else(gap)
}

/// Where the parenthesis around the file opens. A file's name may hold parentheses, and those of a function's arguments
/// follow its name without a space.
fn start_of_file(group: &[u8]) -> Option<usize> {
    if group.last() != Some(&b')') {
        return None;
    }
    let mut depth = 0;
    let open = group.iter().rposition(|byte| {
        depth += match byte {
            b')' => 1,
            b'(' => -1,
            _ => 0,
        };
        depth == 0
    })?;
    (open == 0 || group[open - 1] == b' ').then_some(open)
}

/// A symbol without how far behind its start the instruction is.
fn without_offset(symbol: &[u8]) -> &[u8] {
    match memchr::memmem::rfind(symbol, b"+0x") {
        Some(plus) if is_hex(&symbol[plus + 3..]) => &symbol[..plus],
        _ => symbol,
    }
}

/// Words of a line, separated by spaces.
#[derive(Clone, Copy)]
pub(super) struct Text<'a>(pub(super) &'a [u8]);

impl<'a> Text<'a> {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        leading_spaces(self.0) == self.0.len()
    }

    #[inline]
    pub(super) fn next(&mut self) -> &'a [u8] {
        let rest = &self.0[leading_spaces(self.0)..];
        let (word, rest) = rest.split_at(bytes_before_space(rest));
        self.0 = rest;
        word
    }

    #[inline]
    fn peek(&self) -> &'a [u8] {
        { *self }.next()
    }

    /// Takes the next word if it is a number in a column: set to the right, or clearly no name of a function.
    #[inline]
    fn column(&mut self) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let word = ahead.next();
        let places = self.0.len() - ahead.0.len();
        let is_name = || ahead.is_empty() || ahead.peek().starts_with(b"(") || !word.iter().any(u8::is_ascii_digit);
        let is_column = is_hex(word) && (places >= COLUMN_PLACES || is_decimal(word) || !is_name());
        is_column.then(|| {
            *self = ahead;
            word
        })
    }

    /// Whether the next word is a hexadecimal number set to the right of a column.
    fn is_aligned_column(&self) -> bool {
        let mut ahead = *self;
        let word = ahead.next();
        is_hex(word) && self.0.len() - ahead.0.len() >= COLUMN_PLACES
    }
}

const SPACES: u64 = u64::from_le_bytes([b' '; 8]);

/// Gaps and words have about ten bytes, too few for a search to begin and too many to look at each: eight at once.
#[inline]
fn leading_spaces(bytes: &[u8]) -> usize {
    let (chunks, rest) = bytes.as_chunks::<8>();
    for (index, chunk) in chunks.iter().enumerate() {
        let others = u64::from_le_bytes(*chunk) ^ SPACES;
        if others != 0 {
            return index * 8 + others.trailing_zeros() as usize / 8;
        }
    }
    bytes.len() - rest.len() + rest.iter().position(|byte| *byte != b' ').unwrap_or(rest.len())
}

#[inline]
fn bytes_before_space(bytes: &[u8]) -> usize {
    const ONES: u64 = u64::from_le_bytes([0x01; 8]);
    const HIGH_BITS: u64 = u64::from_le_bytes([0x80; 8]);
    let (chunks, rest) = bytes.as_chunks::<8>();
    for (index, chunk) in chunks.iter().enumerate() {
        let others = u64::from_le_bytes(*chunk) ^ SPACES;
        // The lowest bit that is set is that of the first zero byte; bits above it may be wrong.
        let zeros = others.wrapping_sub(ONES) & !others & HIGH_BITS;
        if zeros != 0 {
            return index * 8 + zeros.trailing_zeros() as usize / 8;
        }
    }
    bytes.len() - rest.len() + rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len())
}

fn text(bytes: &[u8]) -> Result<&str, Reason> {
    std::str::from_utf8(bytes).map_err(|_| Reason::NotUtf8)
}

pub(super) fn is_decimal(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}

pub(super) fn is_hex(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_hexdigit)
}

/// At most 18 digits, which cannot overflow; no number of perf's text has more.
#[inline]
pub(super) fn decimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 18 {
        return None;
    }
    let mut sum = 0;
    for byte in digits {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        sum = sum * 10 + u64::from(digit);
    }
    Some(sum)
}

#[inline]
pub(super) fn hex(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let mut sum = 0;
    for byte in digits {
        sum = sum << 4 | u64::from(hex_digit(*byte)?);
    }
    Some(sum)
}

#[inline]
fn hex_digit(byte: u8) -> Option<u8> {
    match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    }
}
