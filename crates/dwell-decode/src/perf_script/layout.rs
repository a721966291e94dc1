//! The layout that a line shares with the one before.
//!
//! perf prints all lines of a recording by one format, with columns of a fixed width. So where the columns of one line end,
//! those of the next one end too, and only the numbers between are read. A line for which anything is otherwise is read
//! from its words ([`line::parse`]); both ways give the same, which a test compares.

use std::ops::Range;

use memchr::{memchr, memrchr};
use rustc_hash::FxHashMap;

use super::ScriptSample;
use super::column::Column;
use super::line::{self, COLUMN_PLACES, Text, decimal, function, hex, is_decimal, is_hex, is_time};
use crate::data_source::DataSource;

/// Events whose names are kept; a recording of memory accesses has two or three.
const EVENTS_MAX: usize = 8;
/// Functions whose texts are kept.
const FUNCTIONS_MAX: usize = 1 << 16;
/// Data sources whose texts are kept; a processor has a few dozen.
const SOURCES_MAX: usize = 1 << 12;

/// What is known from lines before.
#[derive(Default)]
pub(super) struct Layout {
    columns: Option<Columns>,
    events: Vec<KnownEvent>,
    /// What is printed of a data source, up to its last word.
    sources: FxHashMap<u64, Box<[u8]>>,
    functions: FxHashMap<Box<[u8]>, KnownFunction>,
    /// Functions so far; numbers are not used again.
    function_count: u64,
}

struct KnownEvent {
    name: String,
    /// Its column with the colon.
    column: Vec<u8>,
}

/// A function by its text.
struct KnownFunction {
    symbol: Box<str>,
    dso: Box<str>,
    /// From 1.
    number: u64,
}

/// Where columns are.
#[derive(Debug, PartialEq, Eq)]
struct Columns {
    /// What the line began with, up to the end of the name of the program, and where the name is in it.
    beginning: Box<[u8]>,
    comm: Range<usize>,
    /// Thread, and process and thread with a slash.
    threads: Column,
    has_pid: bool,
    /// The brackets of the processor.
    cpu: Option<Range<usize>>,
    seconds: Column,
    fraction: Column,
    /// What a fraction of one is, in nanoseconds.
    fraction_ns: u64,
    /// None if no period is printed.
    period: Option<Column>,
    /// With the colon.
    event: Range<usize>,
    address: Column,
    source: Column,
    /// Where the first bar is.
    bar: usize,
    tail: Tail,
}

/// What follows the last word of the data source; places are counted from there.
#[derive(Debug, PartialEq, Eq)]
struct Tail {
    weight: Column,
    /// None if no instruction is printed.
    ip: Option<Column>,
}

impl Layout {
    /// The sample of a line that has the layout; none if it has not.
    #[inline]
    pub(super) fn parse<'a>(&'a self, line: &'a [u8]) -> Option<ScriptSample<'a>> {
        let columns = self.columns.as_ref()?;
        let mut sample = columns.parse_head(line)?;
        let event_column = line.get(columns.event.clone())?;
        let event = self.events.iter().position(|known| known.column == event_column)?;
        sample.event = &self.events[event].name;
        sample.address = columns.address.hex(line, 0)?;
        let source = columns.source.hex(line, 0)?;
        sample.data_source = Some(DataSource(source));
        let are_apart = ends_column(line, columns.address.end()) && ends_column(line, columns.source.end());
        let gap = line.get(columns.source.end()..columns.bar)?;
        if !are_apart || gap.iter().any(|byte| *byte != b' ') {
            return None;
        }
        let words = self.sources.get(&source)?;
        let tail = line[columns.bar..].strip_prefix(&**words)?;
        let function = self.parse_tail(&columns.tail, line, line.len() - tail.len(), &mut sample)?;
        sample.alike = Some((event as u64 | function << 8, source));
        Some(sample)
    }

    /// Weight and instruction; the number of the function.
    #[inline]
    fn parse_tail<'a>(
        &'a self,
        columns: &Tail,
        line: &'a [u8],
        from: usize,
        sample: &mut ScriptSample<'a>,
    ) -> Option<u64> {
        sample.weight = Some(columns.weight.decimal(line, from)?);
        let weight_end = from + columns.weight.end();
        let Some(ip) = &columns.ip else { return Text(&line[weight_end..]).is_empty().then_some(0) };
        let is_instruction = |ip: &u64| line::may_be_instruction(*ip) && ends_column(line, weight_end);
        sample.ip = Some(ip.hex(line, from).filter(is_instruction)?);
        // No text with a bar is known, which would be the last one in place of that of the data source.
        let known = self.functions.get(&line[from + ip.end()..])?;
        (sample.symbol, sample.dso) = (&known.symbol, &known.dso);
        Some(known.number)
    }

    /// Takes over the layout of a line that was read from its words.
    pub(super) fn learn(&mut self, line: &[u8], sample: &ScriptSample<'_>) {
        let Some((columns, words)) = Columns::of(line, sample) else { return };
        self.learn_event(&line[columns.event.clone()], sample.event);
        if self.sources.len() == SOURCES_MAX {
            self.sources.clear();
        }
        self.sources.extend(sample.data_source.map(|source| (source.0, words.into())));
        if let Some(ip) = &columns.tail.ip {
            self.learn_function(&line[columns.bar + words.len() + ip.end()..]);
        }
        if self.columns.as_ref() != Some(&columns) {
            self.columns = Some(columns);
        }
    }

    fn learn_event(&mut self, column: &[u8], name: &str) {
        match self.events.iter().position(|known| known.name == name) {
            Some(place) => column.clone_into(&mut self.events[place].column),
            None if self.events.len() < EVENTS_MAX => {
                self.events.push(KnownEvent { name: name.to_owned(), column: column.to_owned() });
            }
            None => {}
        }
    }

    fn learn_function(&mut self, text: &[u8]) {
        if self.functions.contains_key(text) {
            return;
        }
        if self.functions.len() == FUNCTIONS_MAX {
            self.functions.clear();
        }
        // What is a column and what a name is decided by the words around it only where it could be either.
        let is_clear = !is_hex({ Text(text) }.next()) && memchr(b'|', text).is_none();
        if let Some((symbol, dso, _)) = is_clear.then(|| function(text).ok()).flatten() {
            self.function_count += 1;
            let known = KnownFunction { symbol: symbol.into(), dso: dso.into(), number: self.function_count };
            self.functions.insert(text.into(), known);
        }
    }
}

impl Columns {
    /// The part before the event.
    #[inline]
    fn parse_head<'a>(&self, line: &'a [u8]) -> Option<ScriptSample<'a>> {
        let (dot, time) = (self.seconds.end(), self.fraction.end());
        let is_place = line.get(dot) == Some(&b'.') && line.get(time..time + 2) == Some(b": ");
        let comm = self.comm_of(line).filter(|_| is_place)?;
        let seconds = self.seconds.decimal(line, 0)?;
        let fraction_ns = self.fraction.full_decimal(line)? * self.fraction_ns;
        let time_ns = seconds.checked_mul(1_000_000_000)?.checked_add(fraction_ns)?;
        let (pid, tid) = self.parse_threads(line)?;
        let cpu = match &self.cpu {
            Some(brackets) => Some(parse_cpu(line, self.threads.end(), brackets)?),
            None => None,
        };
        let period = match &self.period {
            Some(column) => Some(column.decimal(line, 0).filter(|_| ends_column(line, column.end()))?),
            None => None,
        };
        Some(ScriptSample { comm, pid, tid: Some(tid), cpu, time_ns, period, ..ScriptSample::default() })
    }

    /// The name of the program, which is mostly that of the line before.
    #[inline]
    fn comm_of<'a>(&self, line: &'a [u8]) -> Option<&'a [u8]> {
        let beginning = line.get(..self.beginning.len())?;
        if *beginning == *self.beginning {
            return line.get(self.comm.clone());
        }
        // Another time before this one would be the one that counts, and a comment is no sample.
        let is_sample = memchr(b':', beginning).is_none() && !matches!(line[0], b'#' | b'\t');
        is_sample.then(|| beginning.trim_ascii())
    }

    #[inline]
    fn parse_threads(&self, line: &[u8]) -> Option<(Option<u32>, u32)> {
        let end = self.threads.end();
        if !ends_column(line, end) {
            return None;
        }
        if self.has_pid {
            return line::parse_threads(last_word(&line[self.beginning.len()..end])?);
        }
        Some((None, u32::try_from(self.threads.decimal(line, 0)?).ok()?))
    }

    /// The layout of a line, and what it prints of the data source; none if it has other columns than those above, or too
    /// few.
    fn of<'a>(line: &'a [u8], sample: &ScriptSample<'_>) -> Option<(Self, &'a [u8])> {
        let bar = memchr(b'|', line)?;
        let words = words_of(&line[..bar]);
        let time_at =
            words.iter().position(|word| matches!(&line[word.clone()], [time @ .., b':'] if is_time(time)))?;
        let time = words[time_at].end - 1;
        let dot = words[time_at].start + memchr(b'.', &line[words[time_at].clone()])?;
        let before_time = time_at.checked_sub(1)?;
        let has_cpu = line[words[before_time].start] == b'[';
        let threads_at = if has_cpu { before_time.checked_sub(1)? } else { before_time };
        let threads = &words[threads_at];
        let (pid, tid) = line::parse_threads(&line[threads.clone()])?;
        let comm_end = words[threads_at.checked_sub(1)?].end;
        let name_at = comm_end - line[..comm_end].trim_ascii_start().len();
        let (period, event, address, source) = match &words[time_at + 1..] {
            [event, address, source] => (None, event, address, source),
            [period, event, address, source] => (Some(period.end), event, address, source),
            _ => return None,
        };
        let is_known = has_cpu == sample.cpu.is_some()
            && period.is_some() == sample.period.is_some()
            && (pid, Some(tid)) == (sample.pid, sample.tid)
            && !sample.event.is_empty();
        let (tail, words_end) = Tail::of(&line[bar..], sample)?;
        let columns = Self {
            beginning: line[..comm_end].into(),
            comm: name_at..name_at + line[name_at..comm_end].trim_ascii_end().len(),
            threads: Column::new(comm_end..threads.end),
            has_pid: pid.is_some(),
            cpu: has_cpu.then(|| words[before_time].clone()),
            seconds: Column::new(words[before_time].end..dot),
            fraction: Column::new(dot + 1..time),
            fraction_ns: 10_u64.pow(9_u32.checked_sub((time - dot - 1) as u32)?),
            period: period.map(|end| Column::new(time + 1..end)),
            event: period.unwrap_or(time + 1)..event.end,
            address: Column::new(event.end..address.end),
            source: Column::new(address.end..source.end),
            bar,
            tail,
        };
        is_known.then(|| (columns, &line[bar..bar + words_end]))
    }
}

/// The number in the brackets of a processor, which only spaces part from what is before it.
#[inline]
fn parse_cpu(line: &[u8], before: usize, brackets: &Range<usize>) -> Option<u32> {
    let is_apart = line.get(before..brackets.start)?.iter().all(|byte| *byte == b' ');
    let digits = line.get(brackets.clone())?.strip_prefix(b"[")?.strip_suffix(b"]").filter(|_| is_apart)?;
    u32::try_from(decimal(digits)?).ok()
}

impl Tail {
    /// The columns behind the data source, and where what is printed of that ends.
    fn of(rest: &[u8], sample: &ScriptSample<'_>) -> Option<(Self, usize)> {
        let last_bar = memrchr(b'|', rest)?;
        let tail = &rest[last_bar..];
        let words = words_of(tail);
        let weight_at = words.iter().position(|word| tail[word.start].is_ascii_digit())?;
        let words_end = words.get(weight_at.checked_sub(1)?)?.end;
        let weight = &words[weight_at];
        let has_only_text = words[..weight_at].iter().all(|word| !is_hex(&tail[word.clone()]));
        sample.weight.filter(|_| has_only_text && is_decimal(&tail[weight.clone()]))?;
        let ip = match words.get(weight_at + 1) {
            None => None,
            Some(ip) => {
                let is_column = ip.end - weight.end >= COLUMN_PLACES && hex(&tail[ip.clone()]) == sample.ip;
                // A further number there is a second weight, and the next one is the instruction.
                let is_last = words.get(weight_at + 2).is_some_and(|word| !is_hex(&tail[word.clone()]));
                Some(ip.end).filter(|_| is_column && is_last && sample.ip.is_some()).map(Some)?
            }
        };
        let (weight_end, ip_end) = (weight.end - words_end, ip.map(|end| end - words_end));
        let columns = Self { weight: Column::new(0..weight_end), ip: ip_end.map(|end| Column::new(weight_end..end)) };
        Some((columns, last_bar + words_end))
    }
}

/// Where the words of a text are.
fn words_of(text: &[u8]) -> Vec<Range<usize>> {
    let mut rest = Text(text);
    let mut words = Vec::new();
    loop {
        let word = rest.next();
        if word.is_empty() {
            return words;
        }
        let end = text.len() - rest.0.len();
        words.push(end - word.len()..end);
    }
}

/// Whether nothing of a word is behind a column.
#[inline]
fn ends_column(line: &[u8], end: usize) -> bool {
    line.get(end).is_none_or(|byte| *byte == b' ')
}

/// The one word of a column, behind one space at least.
#[inline]
fn last_word(column: &[u8]) -> Option<&[u8]> {
    let (before, word) = column.split_at(start_of_word(column, column.len())?);
    before.iter().all(|byte| *byte == b' ').then_some(word)
}

/// Where the word begins that ends at a place; a space must be before it.
#[inline]
fn start_of_word(text: &[u8], end: usize) -> Option<usize> {
    let space = memrchr(b' ', &text[..end])?;
    (space + 1 < end).then_some(space + 1)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LINES: [&str; 6] = [
        "llama-server    4242 [000] 1000.000000863:       4000     cpu/mem-loads,ldlat=30/P:     7f0000c11600        269100142 \
         |OP LOAD|LVL RAM hit|SNP Miss|TLB L2 miss|LCK No|BLK  N/A               37     55d0c0007303 ggml_vec_dot (/usr/lib/libggml.so)",
        "llama-server    4242 [000] 1000.000000863:       4000             cpu/mem-stores/P:     7f0000c11601         68100142 \
         |OP STORE|LVL L1 hit|SNP N/A|TLB N/A|LCK N/A|BLK  N/A              370     55d0c0007304 std::map<int, long>::operator[] (/a b/c.so)",
        "          python  1234 12345.678901: cpu/mem-loads,ldlat=30/P:     7f00deadbeef       1a05080144 \
         |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A               61",
        "          python  1234/1235 12345.678901: cpu/mem-loads,ldlat=30/P:     7f00deadbeef       1a05080144 \
         |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A               61                5     55d0c0007303 add (x)",
        "a 1.5: b         4242 [001] 1000.000000863:       4000     cpu/mem-loads,ldlat=30/P:     7f0000c11600        269100142 \
         |OP LOAD|LVL RAM hit|SNP Miss|TLB L2 miss|LCK No|BLK  N/A               37     55d0c0007303 deadbeef (/usr/lib/libggml.so)",
        "llama-server    4242 [000] 1000.000000863:       4000     cpu/mem-loads,ldlat=30/P:     7f0000c11600 data+0x10 (/lib/foo.so) \
         269100142 |OP LOAD|LVL RAM hit|BLK  N/A               37     55d0c0007303 ggml_vec_dot (/usr/lib/libggml.so)",
    ];

    /// What a layout reads, apart from which lines are alike.
    fn parsed<'a>(layout: &'a Layout, line: &'a [u8]) -> Option<ScriptSample<'a>> {
        layout.parse(line).map(|sample| ScriptSample { alike: None, ..sample })
    }

    #[test]
    fn a_line_like_the_one_before_is_read_by_its_layout() {
        for line in [LINES[0], LINES[1], LINES[2]].map(str::as_bytes) {
            let mut layout = Layout::default();
            let sample = line::parse(line, None).expect("a line of perf");
            assert_eq!(layout.parse(line), None);
            layout.learn(line, &sample);
            assert_eq!(parsed(&layout, line), Some(sample));
        }
        let mut layout = Layout::default();
        layout.learn(LINES[0].as_bytes(), &line::parse(LINES[0].as_bytes(), None).expect("a line of perf"));
        let other = LINES[0].replace("4242 [000] 1000.000000863", "4249 [007] 1001.100000000").replace(" 37 ", "  7 ");
        assert_eq!(layout.parse(other.as_bytes()).map(|sample| sample.weight), Some(Some(7)));
    }

    #[test]
    fn lines_are_alike_if_event_data_source_and_function_are_the_same() {
        let mut layout = Layout::default();
        let alike = |layout: &Layout, line: &str| layout.parse(line.as_bytes()).and_then(|sample| sample.alike);
        let far = LINES[0].replace("269100142 |OP LOAD|LVL RAM hit", " 68100842 |OP LOAD|LVL L3 hit");
        let of_other_function = LINES[0].replace("ggml_vec_dot", "memcpy");
        let lines = [LINES[0], LINES[1], &far, &of_other_function];
        for line in lines {
            layout.learn(line.as_bytes(), &line::parse(line.as_bytes(), None).expect("a line of perf"));
        }
        let numbers = lines.map(|line| alike(&layout, line).expect("a line that was learnt"));
        let distinct: std::collections::BTreeSet<_> = numbers.into_iter().collect();
        assert_eq!(distinct.len(), lines.len());
        let later =
            LINES[0].replace("1000.000000863", "1000.000009863").replace("c11600", "c99999").replace(" 37 ", " 99 ");
        assert_eq!(alike(&layout, &later), Some(numbers[0]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]

        #[test]
        fn what_a_layout_reads_is_what_the_words_say(
            learned in 0..LINES.len(),
            read in 0..LINES.len(),
            edits in prop::collection::vec((0..260_usize, 0..4_u8, prop::sample::select(b" .:|[]()/0a9fx+\t\xff".to_vec())), 0..4),
        ) {
            let learned = LINES[learned].as_bytes();
            let mut line = LINES[read].as_bytes().to_vec();
            for (at, kind, byte) in edits {
                let at = at % line.len().max(1);
                match kind {
                    0 => line.insert(at, byte),
                    1 if at < line.len() => drop(line.remove(at)),
                    2 => line.truncate(at.max(1)),
                    _ => line.iter_mut().skip(at).take(1).for_each(|old| *old = byte),
                }
            }
            let mut layout = Layout::default();
            if let Ok(sample) = line::parse(learned, None) {
                layout.learn(learned, &sample);
            }
            if let Some(sample) = parsed(&layout, &line) {
                prop_assert_eq!(line::parse(&line, None), Ok(sample));
            }
            // A line may teach what it is itself read by.
            if let Ok(sample) = line::parse(&line, None) {
                layout.learn(&line, &sample);
                prop_assert!(parsed(&layout, &line).is_none_or(|again| again == sample));
            }
        }
    }
}
