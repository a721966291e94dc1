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
//! the right of at least 16 places.

use super::{Reason, ScriptSample};
use crate::data_source::DataSource;

/// Places of a column with an address.
const COLUMN_PLACES: usize = 16;
/// Within so many bytes the time ends: the name of a program has 16 at most, and numbers are what else there is.
const MAX_HEAD_BYTES: usize = 256;

/// A sample, or why the line is none.
pub(super) fn parse<'a>(line: &'a [u8], chain: Option<&'a [u8]>) -> Result<ScriptSample<'a>, Reason> {
    let (time_at, after_time) = find_time(line).ok_or(Reason::NoTime)?;
    let time_ns = parse_time(&line[time_at..after_time - 1]).ok_or(Reason::BadNumber)?;
    let mut sample = ScriptSample { time_ns, ..ScriptSample::default() };
    parse_head(&line[..time_at], &mut sample)?;
    let mut rest = Text(&line[after_time..]);
    if rest.peek().starts_with(b"PERF_RECORD_") {
        return Err(Reason::OtherRecord);
    }
    parse_event(&mut rest, &mut sample)?;
    match memchr::memchr(b'|', rest.0) {
        Some(bar) => parse_with_source(rest.0, bar, &mut sample)?,
        None => parse_without_source(rest, chain.is_some(), &mut sample)?,
    }
    if let Some(chain) = chain.filter(|_| sample.ip.is_none()) {
        let mut chain = Text(chain);
        sample.ip = hex(chain.next());
        (sample.symbol, sample.dso, _) = function(chain.0)?;
    }
    Ok(sample)
}

/// Where the time begins, and where what follows its colon begins.
fn find_time(line: &[u8]) -> Option<(usize, usize)> {
    let line = &line[..line.len().min(MAX_HEAD_BYTES)];
    let is_time = |colon: &usize| {
        let from = start_of_word(line, *colon);
        let mut parts = line[from..*colon].splitn(2, |byte| *byte == b'.');
        let is_end = matches!(line.get(colon + 1), None | Some(b' '));
        is_end && [parts.next(), parts.next()].iter().all(|part| part.is_some_and(is_decimal))
    };
    let colon = memchr::memchr_iter(b':', line).find(is_time)?;
    Some((start_of_word(line, colon), colon + 1))
}

fn start_of_word(line: &[u8], end: usize) -> usize {
    memchr::memrchr2(b' ', b'\t', &line[..end]).map_or(0, |space| space + 1)
}

/// Seconds and their fraction, which has 6 places, or 9 with `--ns`.
fn parse_time(text: &[u8]) -> Option<u64> {
    let dot = memchr::memchr(b'.', text)?;
    let (seconds, fraction) = (&text[..dot], &text[dot + 1..]);
    let places = u32::try_from(fraction.len()).ok().filter(|places| *places <= 9)?;
    let fraction_ns = decimal(fraction)? * 10_u64.pow(9 - places);
    decimal(seconds)?.checked_mul(1_000_000_000)?.checked_add(fraction_ns)
}

/// What stands before the time, from the right, because the name of the program may hold anything.
fn parse_head<'a>(head: &'a [u8], sample: &mut ScriptSample<'a>) -> Result<(), Reason> {
    let mut head = head.trim_ascii();
    let is_number_of_thread = |word: &[u8]| parse_threads(word).is_some() || is_cpu(word);
    let (before, last) = split_last_word(head);
    // Flags of the record (`-F misc`), such as U for a program.
    if !is_number_of_thread(last) && is_number_of_thread(split_last_word(before).1) {
        head = before;
    }
    let (before, last) = split_last_word(head);
    if is_cpu(last) {
        let cpu = decimal(&last[1..last.len() - 1]).and_then(|cpu| u32::try_from(cpu).ok());
        sample.cpu = Some(cpu.ok_or(Reason::BadNumber)?);
        head = before;
    }
    let (before, last) = split_last_word(head);
    if let Some((pid, tid)) = parse_threads(last) {
        (sample.pid, sample.tid) = (pid, Some(tid));
        head = before;
    }
    sample.comm = text(head)?;
    Ok(())
}

fn is_cpu(word: &[u8]) -> bool {
    matches!(word, [b'[', digits @ .., b']'] if is_decimal(digits))
}

/// `pid/tid`, or one number: the thread, which `perf script` prints unless it is told otherwise.
fn parse_threads(word: &[u8]) -> Option<(Option<u32>, u32)> {
    let number = |text: &[u8]| u32::try_from(decimal(text)?).ok();
    match memchr::memchr(b'/', word) {
        Some(slash) => Some((Some(number(&word[..slash])?), number(&word[slash + 1..])?)),
        None => Some((None, number(word)?)),
    }
}

fn split_last_word(text: &[u8]) -> (&[u8], &[u8]) {
    let from = start_of_word(text, text.len());
    (text[..from].trim_ascii_end(), &text[from..])
}

/// Period and event, each only if it is printed.
fn parse_event<'a>(rest: &mut Text<'a>, sample: &mut ScriptSample<'a>) -> Result<(), Reason> {
    let mut ahead = *rest;
    let first = ahead.next();
    let (period, event) = if is_decimal(first) { (first, ahead.next()) } else { (&first[..0], first) };
    let Some((b':', event)) = event.split_last() else { return Ok(()) };
    if !period.is_empty() {
        sample.period = Some(decimal(period).ok_or(Reason::BadNumber)?);
    }
    sample.event = text(event)?;
    *rest = ahead;
    Ok(())
}

/// A line with a data source: its number is the last word before the first bar, the address the first word there.
fn parse_with_source<'a>(rest: &'a [u8], bar: usize, sample: &mut ScriptSample<'a>) -> Result<(), Reason> {
    let (before, source) = split_last_word(rest[..bar].trim_ascii_end());
    sample.data_source = Some(DataSource(hex(source).ok_or(Reason::NoDataSource)?));
    sample.address = hex(Text(before).next()).ok_or(Reason::NoAddress)?;
    let last_bar = memchr::memrchr(b'|', &rest[bar..]).unwrap_or(0);
    let mut tail = Text(&rest[bar + last_bar + 1..]);
    // The words that the last part of the data source consists of; none of them could be a number.
    while !tail.is_empty() && !is_hex(tail.peek()) {
        tail.next();
    }
    parse_tail(tail, sample)
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
    let mut ahead = tail;
    ahead.column().filter(|_| !ahead.is_empty()).ok_or(Reason::NoAddress)?;
    sample.address = address;
    parse_instruction(&mut tail, sample)
}

/// Weights, then the instruction. The last number before a function or file is the address of the instruction.
fn parse_tail<'a>(mut tail: Text<'a>, sample: &mut ScriptSample<'a>) -> Result<(), Reason> {
    let mut index = 0;
    loop {
        let mut ahead = tail;
        let Some(word) = ahead.column() else { return Ok(()) };
        let has_more = !ahead.is_empty();
        let is_last = ahead.column().is_none();
        if is_last && has_more {
            return parse_instruction(&mut tail, sample);
        }
        if index == 0 && is_decimal(word) {
            sample.weight = Some(decimal(word).ok_or(Reason::BadNumber)?);
        }
        index += 1;
        tail.next();
    }
}

fn parse_instruction<'a>(tail: &mut Text<'a>, sample: &mut ScriptSample<'a>) -> Result<(), Reason> {
    sample.ip = Some(hex(tail.next()).ok_or(Reason::BadNumber)?);
    (sample.symbol, sample.dso, _) = function(tail.0)?;
    Ok(())
}

/// Function and file, and what stands behind them.
fn function(rest: &[u8]) -> Result<(&str, &str, &[u8]), Reason> {
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
struct Text<'a>(&'a [u8]);

impl<'a> Text<'a> {
    fn is_empty(&self) -> bool {
        self.0.trim_ascii_start().is_empty()
    }

    fn next(&mut self) -> &'a [u8] {
        let rest = self.0.trim_ascii_start();
        let end = memchr::memchr2(b' ', b'\t', rest).unwrap_or(rest.len());
        let (word, rest) = rest.split_at(end);
        self.0 = rest;
        word
    }

    fn peek(&self) -> &'a [u8] {
        let mut ahead = *self;
        ahead.next()
    }

    /// Takes the next word if it is a number in a column: set to the right, or clearly no name of a function.
    fn column(&mut self) -> Option<&'a [u8]> {
        let mut ahead = *self;
        let word = ahead.next();
        let is_name = || ahead.is_empty() || ahead.peek().starts_with(b"(");
        let is_column = is_hex(word) && (is_decimal(word) || self.is_aligned_column() || !is_name());
        is_column.then(|| {
            *self = ahead;
            word
        })
    }

    /// Whether the next word is a hexadecimal number set to the right of a column.
    fn is_aligned_column(&self) -> bool {
        let spaces = self.0.len() - self.0.trim_ascii_start().len();
        let word = self.peek();
        is_hex(word) && spaces + word.len() >= COLUMN_PLACES
    }
}

fn text(bytes: &[u8]) -> Result<&str, Reason> {
    std::str::from_utf8(bytes).map_err(|_| Reason::NotUtf8)
}

fn is_decimal(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_digit)
}

fn is_hex(word: &[u8]) -> bool {
    !word.is_empty() && word.iter().all(u8::is_ascii_hexdigit)
}

fn decimal(digits: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    let add = |sum: u64, byte: &u8| sum.checked_mul(10)?.checked_add(digit(byte)?);
    (!digits.is_empty()).then(|| digits.iter().try_fold(0, add)).flatten()
}

fn hex(digits: &[u8]) -> Option<u64> {
    let digit = |byte: &u8| char::from(*byte).to_digit(16).map(u64::from);
    let add = |sum: u64, byte: &u8| Some((sum << 4) | digit(byte)?);
    (!digits.is_empty() && digits.len() <= 16).then(|| digits.iter().try_fold(0, add)).flatten()
}
