//! Lines of `perf script` in the forms that perf 5 and 6 print, with what they say.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use dwell_decode::data_source::DataSource;
use dwell_decode::error::DecodeError;
use dwell_decode::perf_script::{PerfScript, Reason, ScriptCounts, ScriptSample};

/// A sample without borrowed text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Found {
    comm: String,
    pid: Option<u32>,
    tid: Option<u32>,
    cpu: Option<u32>,
    time_ns: u64,
    period: Option<u64>,
    event: String,
    address: u64,
    source: Option<u64>,
    weight: Option<u64>,
    ip: Option<u64>,
    symbol: String,
    dso: String,
}

impl From<&ScriptSample<'_>> for Found {
    fn from(sample: &ScriptSample<'_>) -> Self {
        Self {
            comm: String::from_utf8_lossy(sample.comm).into_owned(),
            pid: sample.pid,
            tid: sample.tid,
            cpu: sample.cpu,
            time_ns: sample.time_ns,
            period: sample.period,
            event: sample.event.to_owned(),
            address: sample.address,
            source: sample.data_source.map(|DataSource(bits)| bits),
            weight: sample.weight,
            ip: sample.ip,
            symbol: sample.symbol.to_owned(),
            dso: sample.dso.to_owned(),
        }
    }
}

fn read(text: &[u8]) -> (Vec<Found>, ScriptCounts) {
    let mut found = Vec::new();
    let mut script = PerfScript::new(text);
    let take = |sample: &ScriptSample<'_>| {
        found.push(sample.into());
        Ok::<(), DecodeError>(())
    };
    script.read(take).unwrap();
    (found, script.counts().clone())
}

fn one(line: &str) -> Found {
    let (found, counts) = read(format!("{line}\n").as_bytes());
    assert_eq!(found.len(), 1, "{line}: {:?}", counts.skipped);
    found[0].clone()
}

/// Why a line gave nothing.
fn reason(line: &str) -> Reason {
    let (found, counts) = read(format!("{line}\n").as_bytes());
    assert_eq!((found.len(), counts.skipped.len()), (0, 1), "{line}: {found:?}");
    *counts.skipped.first_key_value().unwrap().0
}

const SOURCE: &str = "        68100142 |OP LOAD|LVL L1 hit|SNP None|TLB L1 or L2 hit|LCK No|BLK  N/A    ";

fn memory_sample() -> Found {
    Found {
        comm: "llama server".into(),
        tid: Some(101),
        cpu: Some(1),
        time_ns: 1_001_234_000,
        period: Some(4000),
        event: "cpu/mem-loads,ldlat=30/P".into(),
        address: 0x7f00_0000_0040,
        source: Some(0x6810_0142),
        weight: Some(300),
        ip: Some(0x40_1000),
        dso: "/usr/bin/python3".into(),
        ..Found::default()
    }
}

#[test]
fn all_fields_of_the_default_output_are_read() {
    let line = format!(
        "    llama server   101 [001]     1.001234:       4000 cpu/mem-loads,ldlat=30/P:     7f0000000040{SOURCE}         300 \
                       5           401000 [unknown] (/usr/bin/python3)        12345000"
    );
    assert_eq!(one(&line), memory_sample());
}

#[test]
fn process_thread_and_nanoseconds_are_read() {
    let line = format!(
        "    llama server   100/101   [001]     1.001234567:       4000 cpu/mem-loads,ldlat=30/P:     \
         7f0000000040{SOURCE}         300           401000 [unknown] (/usr/bin/python3)"
    );
    assert_eq!(one(&line), Found { pid: Some(100), time_ns: 1_001_234_567, ..memory_sample() });
}

#[test]
fn flags_of_the_record_are_passed_over() {
    let line = "    llama server   101 [001] U         1.001234:     7f0000000040";
    let expected = Found {
        comm: "llama server".into(),
        tid: Some(101),
        cpu: Some(1),
        time_ns: 1_001_234_000,
        address: 0x7f00_0000_0040,
        ..Found::default()
    };
    assert_eq!(one(line), expected);
}

#[test]
fn the_fields_that_mrm_trace_prints_are_read() {
    let line =
        format!("    llama server   100     1.001234: cpu/mem-loads,ldlat=30/P:     7f0000000040{SOURCE}         300");
    let expected = Found { tid: Some(100), cpu: None, period: None, ip: None, dso: String::new(), ..memory_sample() };
    assert_eq!(one(&line), expected);
}

#[test]
fn a_time_and_an_address_are_enough() {
    let expected = Found { time_ns: 1_000_000_000, tid: Some(100), address: 0xabc, ..Found::default() };
    assert_eq!(one("  100     1.000000:              abc"), expected);
    assert_eq!(one("     1.000000:              abc"), Found { tid: None, ..expected });
}

#[test]
fn an_event_may_have_modifiers_and_a_program_colons() {
    let found = one("kworker/0:1-ev 7 [000] 12.5: 1 cpu_core/mem-loads,ldlat=30/Pu:u:  7f00 ");
    assert_eq!((found.comm.as_str(), found.tid, found.time_ns), ("kworker/0:1-ev", Some(7), 12_500_000_000));
    assert_eq!((found.event.as_str(), found.period), ("cpu_core/mem-loads,ldlat=30/Pu:u", Some(1)));
}

#[test]
fn symbols_and_files_may_hold_spaces_and_parentheses() {
    let tails = [
        ("ns::Foo<std::vector<int, std::allocator<int> >*>::operator()+0x20 (/tmp/x (y))", "/tmp/x (y)"),
        ("ns::Foo<std::vector<int, std::allocator<int> >*>::operator() (/tmp/x (y))        12345000", "/tmp/x (y)"),
        ("ns::Foo<std::vector<int, std::allocator<int> >*>::operator() (/tmp/a (deleted))", "/tmp/a (deleted)"),
        ("ns::Foo<std::vector<int, std::allocator<int> >*>::operator()+0xff ([kernel.kallsyms])", "[kernel.kallsyms]"),
    ];
    for (tail, dso) in tails {
        let found = one(&format!("x 1 1.000000: e:     7f0000000040{SOURCE}         300     55ed738b1182 {tail}"));
        let symbol = "ns::Foo<std::vector<int, std::allocator<int> >*>::operator()";
        assert_eq!((found.symbol.as_str(), found.dso.as_str()), (symbol, dso), "{tail}");
        assert_eq!((found.ip, found.weight), (Some(0x55ed_738b_1182), Some(300)));
    }
}

#[test]
fn a_function_of_several_words_that_could_be_numbers_keeps_all_of_them() {
    for (columns, symbol) in [("300           401000", "a b c"), ("300 401000", "a b c"), ("300 401000", "add bed fa")]
    {
        let found = one(&format!("x 1 1.000000: e:     7f0000000040{SOURCE}         {columns} {symbol} (/tmp/x)"));
        assert_eq!((found.symbol.as_str(), found.dso.as_str()), (symbol, "/tmp/x"), "{columns}");
        assert_eq!((found.ip, found.weight), (Some(0x40_1000), Some(300)));
    }
}

#[test]
fn fields_in_another_order_are_counted_and_not_guessed() {
    let source = SOURCE.trim();
    let lines = [
        // Weight, period, event or instruction between the address and the data source, or in the place of the address.
        format!("x 1 1.000000: e:     7f0000000040              300 {source}"),
        format!("x 1 1.000000: e:             4000     7f0000000040 {source}              300"),
        format!("x 1 1.000000:     7f0000000040 e: {source}              300"),
        format!("x 1 1.000000: e:     7f0000000040           401000 add (/tmp/x) {source}              300"),
        format!("x 1 1.000000: e:           401000 add (/tmp/x)     7f0000000040 {source}              300"),
        format!("x 1 1.000000: e:              300 {source}     7f0000000040"),
        "x 1 1.000000: e:              300     7f0000000040".to_owned(),
        // The weight or the event behind where it belongs.
        format!("x 1 1.000000: e:     7f0000000040 {source}     7fffdeadbeef              300 add (/tmp/x)"),
        format!("x 1 1.000000: e:     7f0000000040 {source}           401000              300 add (/tmp/x)"),
        format!("x 1 1.000000:     7f0000000040 {source}       4000 e:              300"),
    ];
    for line in lines {
        assert_eq!(reason(&line), Reason::OtherOrder, "{line}");
    }
}

#[test]
fn the_function_of_the_data_may_stand_before_the_data_source() {
    for place in ["data+0x10 (/lib/foo.so)", "[unknown] ([unknown])", "a::b<int, long>", "[heap]"] {
        let found =
            one(&format!("x 1 1.000000: e:     7f0000000040 {place}{SOURCE}         300           401000 add (/x)"));
        assert_eq!((found.address, found.ip, found.weight), (0x7f00_0000_0040, Some(0x40_1000), Some(300)), "{place}");
    }
}

#[test]
fn a_function_whose_name_is_a_number_is_a_function() {
    let found = one(&format!("x 1 1.000000: e:     7f0000000040{SOURCE}         300           401000 add (/tmp/x)"));
    assert_eq!((found.symbol.as_str(), found.ip, found.weight), ("add", Some(0x40_1000), Some(300)));
}

#[test]
fn arguments_without_a_file_are_part_of_the_function() {
    let found =
        one(&format!("x 1 1.000000: e:     7f0000000040{SOURCE}         300           401000 f(int, char)+0x1"));
    assert_eq!((found.symbol.as_str(), found.dso.as_str()), ("f(int, char)", ""));
}

#[test]
fn of_a_page_fault_the_function_of_the_instruction_is_taken() {
    let line = "  ls 10883/10883   374.430021: page-faults:     7f9c80cb5110 dl_close_state.2 (/usr/lib/ld.so.2) \
                ffffffff8175286a elf_load ([kernel.kallsyms])";
    let found = one(line);
    assert_eq!((found.address, found.ip), (0x7f9c_80cb_5110, Some(0xffff_ffff_8175_286a)));
    assert_eq!((found.symbol.as_str(), found.dso.as_str()), ("elf_load", "[kernel.kallsyms]"));
}

#[test]
fn of_a_call_chain_the_innermost_function_is_taken() {
    let text = "ls 10027  2260.215166: page-faults:     55d6fa8675c0 __progname (/usr/bin/ls)\n\
                \tffffffff8175286a elf_load ([kernel.kallsyms])\n\
                \tffffffff81752f0a load_elf_binary ([kernel.kallsyms])\n\n";
    // Only page faults have the function of the address.
    for text in [text.to_owned(), text.replace(" __progname (/usr/bin/ls)", "")] {
        let (found, counts) = read(text.as_bytes());
        assert_eq!((found.len(), counts.chain_lines, counts.skipped.len()), (1, 2, 0));
        assert_eq!(found[0].address, 0x55d6_fa86_75c0);
        assert_eq!((found[0].ip, found[0].symbol.as_str()), (Some(0xffff_ffff_8175_286a), "elf_load"));
    }
}

#[test]
fn lines_that_give_no_sample_are_counted_by_reason() {
    assert_eq!(reason("nothing of interest"), Reason::NoTime);
    assert_eq!(
        reason("ls 1 374.4: 1 page-faults:  ffffffff8175286a elf_load+0x28a ([kernel.kallsyms])"),
        Reason::NoAddress
    );
    assert_eq!(reason("ls 1 374.4: page-faults:"), Reason::NoAddress);
    assert_eq!(reason("ls 1 374.4: e: 7f00 |OP LOAD|"), Reason::NoAddress);
    assert_eq!(reason("ls 1 374.4: e: 7f00 source |OP LOAD|"), Reason::NoDataSource);
    assert_eq!(reason("ls 1 99999999999999.000000: e: 7f00"), Reason::BadNumber);
    assert_eq!(reason("ls 1 374.4: e: 12345678901234567"), Reason::NoAddress);
    assert_eq!(reason("ls 1 374.4: PERF_RECORD_MMAP2 1/1: [0x7f(0x21000) @ 0 00:00 0 0]: rw-p x"), Reason::OtherRecord);
    assert_eq!(reason(&"x".repeat(70_000)), Reason::TooLong);
    let (found, counts) = read(b"ls 1 374.4: e: 7f00\nls 1 374.5: e: 7f");
    assert_eq!((found.len(), counts.skipped.keys().next()), (1, Some(&Reason::Unfinished)));
    let (_, counts) = read(b"ls 1 374.4: e\xff: 7f00\n");
    assert_eq!(counts.skipped.keys().next(), Some(&Reason::NotUtf8));
}

#[test]
fn the_first_lines_of_each_reason_are_kept() {
    let text: String = (0..10).map(|index| format!("no sample {index}\n")).collect();
    let (_, counts) = read(text.as_bytes());
    let skipped = &counts.skipped[&Reason::NoTime];
    assert_eq!(skipped.count, 10);
    assert_eq!(skipped.first.len(), 3);
    assert_eq!(skipped.first[1], (2, "no sample 1".to_owned()));
}

#[test]
fn lost_records_that_the_text_tells_of_are_counted() {
    let (_, counts) = read(b"  swapper 0 374.4: PERF_RECORD_LOST lost 42\n swapper 0 374.5: PERF_RECORD_LOST lost 8\n");
    assert_eq!(counts.lost_records, 50);
}

#[test]
fn a_line_that_is_too_long_ends_where_it_ends() {
    let text = format!("a 1 1.000000: e: 7f00\n{}\na 1 2.000000: e: 7f01\n", "x".repeat(3 << 20));
    let (found, counts) = read(text.as_bytes());
    assert_eq!(found.iter().map(|sample| sample.address).collect::<Vec<_>>(), [0x7f00, 0x7f01]);
    assert_eq!(counts.lines, 3);
}

/// Gives so many bytes at a time.
struct Pieces<'a>(&'a [u8], usize);

impl std::io::Read for Pieces<'_> {
    fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
        let count = self.1.min(room.len()).min(self.0.len());
        let (piece, rest) = self.0.split_at(count);
        room[..count].copy_from_slice(piece);
        self.0 = rest;
        Ok(count)
    }
}

#[test]
fn a_text_is_read_the_same_in_pieces_of_any_size() {
    let call = "perf 7 2.000000: cycles:  7f00\n\t    55d0c0007303 add (/lib/x.so)\n\n";
    let long = format!("x 1 3.000000: mem-loads: 7f00 {}\n", "y".repeat(70_000));
    let plain = format!("llama 4242 1000.000000863: mem-stores:     7f0000c11600 {SOURCE} 37\r\n");
    let text = [plain.repeat(3_000), call.repeat(2_000), long, plain, "x 1 4.000000: mem-lo".to_owned()].concat();
    let read_in = |bytes: usize| {
        let (mut sum, mut script) = (0_u64, PerfScript::new(Pieces(text.as_bytes(), bytes)));
        let take = |sample: &ScriptSample<'_>| {
            sum = sum.wrapping_mul(31).wrapping_add(sample.time_ns ^ sample.address ^ sample.symbol.len() as u64);
            Ok::<(), DecodeError>(())
        };
        script.read(take).unwrap();
        (sum, script.counts().clone())
    };
    let whole = read_in(usize::MAX);
    assert_eq!(
        (whole.1.samples, whole.1.skipped[&Reason::TooLong].count, whole.1.skipped[&Reason::Unfinished].count),
        (5_001, 1, 1)
    );
    for bytes in [61, 4_093, 65_536, 65_537, 131_073, 262_144] {
        assert_eq!(read_in(bytes), whole, "{bytes} bytes at a time");
    }
}
