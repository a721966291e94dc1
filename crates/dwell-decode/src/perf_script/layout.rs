//! The layout that a line shares with the one before.
//!
//! perf prints all lines of a recording by one format, with columns of a fixed width. So where the columns of one line end,
//! those of the next one end too, and only the numbers between are read. A line for which anything is otherwise is read
//! from its words ([`line::parse`]); both ways give the same, which a test compares.

use std::ops::Range;

use memchr::{memchr, memrchr};
use rustc_hash::FxHashMap;

use super::ScriptSample;
use super::line::{self, COLUMN_PLACES, Text, decimal, function, hex, is_decimal, is_hex, is_time};
use crate::data_source::DataSource;

/// Events whose names are kept; a recording of memory accesses has two or three.
const EVENTS_MAX: usize = 8;
/// Functions whose texts are kept.
const FUNCTIONS_MAX: usize = 1 << 16;

/// Symbol and file of a function.
type FunctionTexts = (Box<str>, Box<str>);

/// What is known from lines before.
#[derive(Default)]
pub(super) struct Layout {
    columns: Option<Columns>,
    events: Vec<String>,
    functions: FxHashMap<Box<[u8]>, FunctionTexts>,
}

/// Where columns end, each the place of the byte behind it.
#[derive(Debug, PartialEq, Eq)]
struct Columns {
    has_cpu: bool,
    dot: usize,
    time: usize,
    /// None if no period is printed.
    period: Option<usize>,
    event: usize,
    address: usize,
    source: usize,
    /// Where the first bar is.
    bar: usize,
    tail: Tail,
}

/// What follows the last bar; places are counted from it.
#[derive(Debug, PartialEq, Eq)]
struct Tail {
    /// The bar and the words behind it, without numbers.
    words: Vec<u8>,
    weight: usize,
    /// None if no instruction is printed.
    ip: Option<usize>,
}

impl Layout {
    /// The sample of a line that has the layout; none if it has not.
    pub(super) fn parse<'a>(&'a self, line: &'a [u8]) -> Option<ScriptSample<'a>> {
        let columns = self.columns.as_ref()?;
        if line.get(columns.bar) != Some(&b'|') {
            return None;
        }
        let mut sample = columns.parse_head(line)?;
        let begin = columns.period.unwrap_or(columns.time + 1);
        let event = last_word(&line[begin..columns.event]).filter(|_| line[columns.event] == b':')?;
        sample.event = self.events.iter().find(|known| known.as_bytes() == event)?;
        sample.address = hex(word_of(line, columns.event + 1..columns.address)?)?;
        sample.data_source = Some(DataSource(hex(word_of(line, columns.address..columns.source)?)?));
        if line[columns.source..columns.bar].iter().any(|byte| *byte != b' ') {
            return None;
        }
        self.parse_tail(&columns.tail, &line[columns.bar..], &mut sample)?;
        Some(sample)
    }

    fn parse_tail<'a>(&'a self, layout: &Tail, rest: &'a [u8], sample: &mut ScriptSample<'a>) -> Option<()> {
        let tail = rest[memrchr(b'|', rest)?..].strip_prefix(&layout.words[..])?;
        let weight_end = layout.weight - layout.words.len();
        let weight = word_of(tail, 0..weight_end).filter(|word| is_decimal(word))?;
        sample.weight = Some(decimal(weight)?);
        let Some(ip_end) = layout.ip.map(|end| end - layout.words.len()) else {
            return Text(&tail[weight_end..]).is_empty().then_some(());
        };
        sample.ip = Some(hex(word_of(tail, weight_end..ip_end)?)?);
        let text = &tail[ip_end..];
        let (symbol, dso) = self.functions.get(text)?;
        (sample.symbol, sample.dso) = (symbol, dso);
        Some(())
    }

    /// Takes over the layout of a line that was read from its words.
    pub(super) fn learn(&mut self, line: &[u8], sample: &ScriptSample<'_>) {
        let Some(columns) = Columns::of(line, sample) else { return };
        if !self.events.iter().any(|known| known == sample.event) && self.events.len() < EVENTS_MAX {
            self.events.push(sample.event.to_owned());
        }
        if let Some(ip_end) = columns.tail.ip {
            self.learn_function(&line[columns.bar..], ip_end);
        }
        if self.columns.as_ref() != Some(&columns) {
            self.columns = Some(columns);
        }
    }

    fn learn_function(&mut self, rest: &[u8], ip_end: usize) {
        if self.functions.len() == FUNCTIONS_MAX {
            self.functions.clear();
        }
        let text = memrchr(b'|', rest).map(|last_bar| &rest[last_bar + ip_end..]);
        // What is a column and what a name is decided by the words around it only where it could be either.
        let text = text.filter(|text| !is_hex({ Text(text) }.next()));
        if let Some((text, (symbol, dso, _))) = text.and_then(|text| Some((text, function(text).ok()?))) {
            self.functions.insert(text.into(), (symbol.into(), dso.into()));
        }
    }
}

impl Columns {
    /// The part before the event, from the time to the left: what stands before it may have any length.
    fn parse_head<'a>(&self, line: &'a [u8]) -> Option<ScriptSample<'a>> {
        if line[self.dot] != b'.' || line[self.time] != b':' || line[self.time + 1] != b' ' {
            return None;
        }
        let fraction = &line[self.dot + 1..self.time];
        let seconds_at = start_of_word(line, self.dot)?;
        let time_ns = line::time_ns(&line[seconds_at..self.dot], fraction)?;
        // Another time before this one would be the one that counts.
        if memchr(b':', &line[..seconds_at]).is_some() {
            return None;
        }
        let mut before = line[..seconds_at].trim_ascii_end();
        let mut cpu = None;
        if self.has_cpu {
            let open = start_of_word(before, before.len())?;
            let digits = before[open..].strip_prefix(b"[")?.strip_suffix(b"]")?;
            cpu = Some(u32::try_from(decimal(digits)?).ok()?);
            before = before[..open].trim_ascii_end();
        }
        let threads_at = start_of_word(before, before.len())?;
        let (pid, tid) = line::parse_threads(&before[threads_at..])?;
        let comm = before[..threads_at].trim_ascii();
        let period = match self.period {
            Some(end) => Some(decimal(word_of(line, self.time + 1..end)?)?),
            None => None,
        };
        Some(ScriptSample { comm, pid, tid: Some(tid), cpu, time_ns, period, ..ScriptSample::default() })
    }

    /// The layout of a line; none if it has other columns than those above, or too few.
    fn of(line: &[u8], sample: &ScriptSample<'_>) -> Option<Self> {
        let bar = memchr(b'|', line)?;
        let words = words_of(&line[..bar]);
        let time_at =
            words.iter().position(|word| matches!(&line[word.clone()], [time @ .., b':'] if is_time(time)))?;
        let time = words[time_at].end - 1;
        let dot = words[time_at].start + memchr(b'.', &line[words[time_at].clone()])?;
        let last = &line[words[time_at.checked_sub(1)?].clone()];
        let has_cpu = last.first() == Some(&b'[');
        let (period, event, address, source) = match &words[time_at + 1..] {
            [event, address, source] => (None, event, address, source),
            [period, event, address, source] => (Some(period.end), event, address, source),
            _ => return None,
        };
        let is_known = has_cpu == sample.cpu.is_some()
            && period.is_some() == sample.period.is_some()
            && (has_cpu || line::parse_threads(last).is_some())
            && !sample.event.is_empty();
        let tail = Tail::of(&line[bar..], sample)?;
        is_known.then_some(Self {
            has_cpu,
            dot,
            time,
            period,
            event: event.end - 1,
            address: address.end,
            source: source.end,
            bar,
            tail,
        })
    }
}

impl Tail {
    fn of(rest: &[u8], sample: &ScriptSample<'_>) -> Option<Self> {
        let tail = &rest[memrchr(b'|', rest)?..];
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
        Some(Self { words: tail[..words_end].to_vec(), weight: weight.end, ip })
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

/// The one word of a column that is set to the right and ends where it should.
#[inline]
fn word_of(line: &[u8], column: Range<usize>) -> Option<&[u8]> {
    let is_ended = line.get(column.end).is_none_or(|byte| *byte == b' ');
    last_word(line.get(column)?).filter(|_| is_ended)
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

    #[test]
    fn a_line_like_the_one_before_is_read_by_its_layout() {
        for line in [LINES[0], LINES[1], LINES[2]].map(str::as_bytes) {
            let mut layout = Layout::default();
            let sample = line::parse(line, None).expect("a line of perf");
            assert_eq!(layout.parse(line), None);
            layout.learn(line, &sample);
            assert_eq!(layout.parse(line), Some(sample));
        }
        let mut layout = Layout::default();
        layout.learn(LINES[0].as_bytes(), &line::parse(LINES[0].as_bytes(), None).expect("a line of perf"));
        let other = LINES[0].replace("4242 [000] 1000.000000863", "4249 [007] 1001.100000000").replace(" 37 ", "  7 ");
        assert_eq!(layout.parse(other.as_bytes()).map(|sample| sample.weight), Some(Some(7)));
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
            if let Some(sample) = layout.parse(&line) {
                prop_assert_eq!(line::parse(&line, None), Ok(sample));
            }
            // A line may teach what it is itself read by.
            if let Ok(sample) = line::parse(&line, None) {
                layout.learn(&line, &sample);
                prop_assert!(layout.parse(&line).is_none_or(|again| again == sample));
            }
        }
    }
}
