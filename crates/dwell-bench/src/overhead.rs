//! What tracing costs: tokens per second with each time resolution, against the same run without any collector.

use crate::report::{Report, median};
use crate::trial::{number, run};

/// Words of the prompt; each is one token of the default model.
const PROMPT_WORDS: usize = 511;
const DECODED_TOKENS: u32 = 128;

/// Least speed of the default mode, the last one, against the untraced one.
const LEAST_SHARE: f64 = 0.98;

struct Mode {
    name: &'static str,
    arguments: &'static [&'static str],
}

/// The first mode is what the others are compared with; the second one is the same again and shows the noise.
const MODES: [Mode; 5] = [
    Mode { name: "untraced", arguments: &["--collect", "process", "--sample-interval-ms", "3600000"] },
    Mode { name: "untraced again", arguments: &["--collect", "process", "--sample-interval-ms", "3600000"] },
    Mode { name: "step", arguments: &["--time-resolution", "step"] },
    Mode { name: "layer", arguments: &["--time-resolution", "layer"] },
    Mode { name: "op (default)", arguments: &["--time-resolution", "op"] },
];

const QUANTITIES: [(&str, &str); 2] =
    [("prompt", "/generation/prompt_tokens_per_s"), ("decode", "/generation/decode_tokens_per_s")];

/// Runs all modes in turns and reports medians of the ratios within a round.
pub(crate) fn measure(rounds: u32, threads: u32, report: &mut Report) -> anyhow::Result<()> {
    let prompt = vec!["word"; PROMPT_WORDS].join(" ");
    let mut ratios: Vec<[Vec<f64>; 2]> = MODES.iter().map(|_| Default::default()).collect();
    let mut base_rates: [Vec<f64>; 2] = Default::default();
    run(&arguments(&MODES[0], &prompt, threads))?; // Brings the model into the page cache.
    for round in 0..rounds {
        let mut rates = vec![[0.0; 2]; MODES.len()];
        for place in 0..MODES.len() {
            // Another order each round, so that no mode always follows the same one.
            let mode = (place + round as usize) % MODES.len();
            let summary = run(&arguments(&MODES[mode], &prompt, threads))?;
            for (quantity, (name, pointer)) in QUANTITIES.iter().enumerate() {
                rates[mode][quantity] = number(&summary, pointer)?;
                report.raw("overhead", round, MODES[mode].name, name, rates[mode][quantity])?;
            }
        }
        for (mode, rates_of_mode) in rates.iter().enumerate() {
            for quantity in 0..QUANTITIES.len() {
                ratios[mode][quantity].push(rates_of_mode[quantity] / rates[0][quantity]);
            }
        }
        base_rates.iter_mut().zip(rates[0]).for_each(|(all, rate)| all.push(rate));
        eprintln!("round {} of {rounds}", round + 1);
    }
    report.section(&table(rounds, threads, &ratios, &base_rates));
    for (quantity, (name, _)) in QUANTITIES.iter().enumerate() {
        let share = median(&ratios[MODES.len() - 1][quantity]);
        if share < LEAST_SHARE {
            report.missed_bar(format!("{name} at {:.1} % of the untraced speed", share * 100.0));
        }
    }
    Ok(())
}

fn arguments(mode: &Mode, prompt: &str, threads: u32) -> Vec<String> {
    let common = ["--chat-template", "off", "--ignore-end", "--context-length", "1024", "--prompt", prompt];
    let numbers = ["--max-tokens".to_owned(), DECODED_TOKENS.to_string(), "--threads".to_owned(), threads.to_string()];
    common.iter().chain(mode.arguments).map(|word| (*word).to_owned()).chain(numbers).collect()
}

fn table(rounds: u32, threads: u32, ratios: &[[Vec<f64>; 2]], base_rates: &[Vec<f64>; 2]) -> String {
    let mut text = format!(
        "## Speed of the traced engine against the untraced one\n\n\
         Default model, prompt of {} tokens, {DECODED_TOKENS} decoded, {threads} threads, median of {rounds} rounds; \
         untraced: {:.1} prompt tokens/s, {:.1} decoded tokens/s.\n\n\
         | time resolution | prompt | decode |\n| --- | --- | --- |\n",
        PROMPT_WORDS + 1,
        median(&base_rates[0]),
        median(&base_rates[1]),
    );
    for (mode, ratios) in MODES.iter().zip(ratios).skip(1) {
        let percent = |values: &[f64]| format!("{:.1} %", median(values) * 100.0);
        text.push_str(&format!("| {} | {} | {} |\n", mode.name, percent(&ratios[0]), percent(&ratios[1])));
    }
    text
}
