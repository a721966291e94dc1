//! Requests: one, or several side by side.

use std::ops::ControlFlow;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use dwell_events::engine::{EngineEvent, StopReason};
use dwell_events::server::RequestTimings;

use super::Teller;
use super::limit::{Limited, generate_limited};
use crate::client::{Asked, Piece, Runtime};
use crate::{Interruption, ServerError};

/// How often the server's figures are taken while it generates.
const METRICS_INTERVAL: Duration = Duration::from_secs(1);

/// A request with its number.
pub(super) struct Numbered<'a> {
    pub(super) request: u32,
    pub(super) asked: Asked<'a>,
    /// Whether it was told that it begins: a program of one request is given it when it is started.
    pub(super) is_told: bool,
}

/// What came of a request.
pub(super) struct Answer {
    pub(super) sequence: i32,
    pub(super) text: String,
    pub(super) timings: RequestTimings,
    /// Tokens that were told.
    pub(super) tokens: u64,
    pub(super) is_interrupted: bool,
    /// Whether the server went on after its tokens until the request was ended from this side.
    pub(super) is_limit_ignored: bool,
}

/// Asks and tells what comes.
pub(super) fn ask(
    runtime: &mut dyn Runtime,
    numbered: &Numbered<'_>,
    teller: &Teller,
    interruption: &Interruption,
) -> Result<Answer, ServerError> {
    let (request, sequence) = (numbered.request, numbered.asked.sequence);
    if !numbered.is_told {
        teller.tell(EngineEvent::RequestBegins { request, sequence });
    }
    let mut text = String::new();
    let mut step = 0;
    let mut has_prompt_ids = false;
    let Limited { timings, is_limit_ignored } = generate_limited(runtime, &numbered.asked, |piece| {
        text.push_str(&piece.text);
        let arrived_ns = piece.arrived_ns;
        // A server that says them again says nothing new.
        if !piece.prompt_ids.is_empty() && !std::mem::replace(&mut has_prompt_ids, true) {
            let ids = piece.prompt_ids.clone();
            teller.tell_at(EngineEvent::PromptTokens { request, ids }, arrived_ns);
        }
        for event in token_events(piece, sequence, numbered.asked.max_tokens, &mut step) {
            teller.tell_at(event, arrived_ns);
        }
        if interruption.is_interrupted() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    })?;
    let is_interrupted = interruption.is_interrupted();
    if !is_interrupted {
        teller.tell(EngineEvent::RequestEnds { request, sequence, timings });
    }
    Ok(Answer { sequence, text, timings, tokens: step.into(), is_interrupted, is_limit_ignored })
}

/// One event for each token of a piece. Text belongs to the last of them, and so do the ids that are known.
///
/// A server that claims more tokens than it was asked for is not believed: events are made of its word.
fn token_events(piece: Piece, sequence: i32, max_tokens: u32, step: &mut u32) -> Vec<EngineEvent> {
    let claimed = piece.tokens.min(max_tokens.saturating_sub(*step)) as usize;
    let tokens = claimed.max(piece.token_ids.len()).max(1);
    let unknown = tokens - piece.token_ids.len();
    let ids = std::iter::repeat_n(None, unknown).chain(piece.token_ids.iter().copied().map(Some));
    let mut text = piece.text;
    let event = |(index, id): (usize, Option<i32>)| {
        let text = if index + 1 == tokens { std::mem::take(&mut text) } else { String::new() };
        let event = EngineEvent::Token { step: *step, sequence, position: None, id, text };
        *step += 1;
        event
    };
    ids.enumerate().map(event).collect()
}

/// Asks for all at once, on a connection each, while this thread calls `meanwhile` every second.
pub(super) fn ask_side_by_side(
    connections: Vec<Box<dyn Runtime>>,
    requests: &[Numbered<'_>],
    teller: &Teller,
    interruption: &Interruption,
    mut meanwhile: impl FnMut(),
) -> Vec<Result<Answer, ServerError>> {
    thread::scope(|scope| {
        let (running, all_done) = channel::<()>();
        let ask_one = |(mut connection, request): (Box<dyn Runtime>, _)| {
            let running = running.clone();
            scope.spawn(move || {
                let _running = running;
                ask(&mut *connection, request, teller, interruption)
            })
        };
        let threads: Vec<_> = connections.into_iter().zip(requests).map(ask_one).collect();
        drop(running);
        while let Err(RecvTimeoutError::Timeout) = all_done.recv_timeout(METRICS_INTERVAL) {
            meanwhile();
        }
        let panicked =
            |_| Err(ServerError::Died { doing: "generating", how: "a thread of the driver panicked".to_owned() });
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    })
}

/// Why an answer ended, from what is known of it.
pub(super) fn stop_reason(answer: &Answer, max_tokens: u32, context_length: Option<u32>) -> StopReason {
    let generated = answer.timings.generated_tokens.unwrap_or(answer.tokens);
    let in_context = answer.timings.prompt_tokens.map(|prompt| prompt.saturating_add(generated));
    // The last token generated is not put into the context.
    let is_full = in_context.zip(context_length).is_some_and(|(tokens, length)| tokens >= u64::from(length));
    match () {
        () if answer.is_interrupted => StopReason::Interrupted,
        () if answer.is_limit_ignored => StopReason::LimitIgnored,
        () if generated >= u64::from(max_tokens) => StopReason::MaxTokens,
        () if is_full => StopReason::ContextFull,
        () => StopReason::EndOfGeneration,
    }
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]
mod tests {
    use dwell_events::engine::EngineOptions;
    use dwell_events::server::{ServerDescription, ServerOptions};

    use super::*;

    fn told(piece: Piece) -> Vec<(u32, Option<i32>, String)> {
        let mut step = 5;
        let parts = |event| match event {
            EngineEvent::Token { step, id, text, sequence: 2, position: None } => Some((step, id, text)),
            _ => None,
        };
        token_events(piece, 2, 20, &mut step).into_iter().filter_map(parts).collect()
    }

    #[test]
    fn a_piece_of_several_tokens_is_several_events_and_its_text_comes_with_the_last() {
        let piece = |text: &str, token_ids: &[i32], tokens| Piece {
            arrived_ns: 0,
            text: text.to_owned(),
            token_ids: token_ids.to_vec(),
            tokens,
            ..Piece::default()
        };
        assert_eq!(told(piece("a", &[7], 1)), [(5, Some(7), "a".to_owned())]);
        let (empty, whole) = (String::new(), "€".to_owned());
        assert_eq!(
            told(piece("€", &[9], 3)),
            [(5, None, empty.clone()), (6, None, empty.clone()), (7, Some(9), whole.clone())]
        );
        assert_eq!(told(piece("€", &[8, 9], 0)), [(5, Some(8), empty), (6, Some(9), whole)]);
        assert_eq!(told(piece("a", &[], 0)), [(5, None, "a".to_owned())], "a piece has a token, said or not");
        assert_eq!(told(piece("a", &[], u32::MAX)).len(), 15, "no more than were asked for");
    }

    /// Two pieces, which arrived long before anybody looked.
    struct Late;

    impl Runtime for Late {
        fn facts(&mut self) -> Result<ServerDescription, ServerError> {
            Ok(ServerDescription::default())
        }

        fn processes(&mut self) -> Vec<(u32, &'static str)> {
            Vec::new()
        }

        fn generate(
            &mut self,
            _asked: &Asked<'_>,
            on_piece: &mut dyn FnMut(Piece) -> ControlFlow<()>,
        ) -> Result<RequestTimings, ServerError> {
            for arrived_ns in [7, 9] {
                let _ = on_piece(Piece { arrived_ns, text: "a".to_owned(), tokens: 1, ..Piece::default() });
            }
            Ok(RequestTimings::default())
        }
    }

    #[test]
    fn a_token_has_the_time_at_which_it_arrived() {
        let (options, server) = (EngineOptions::new("m".into()), ServerOptions::default());
        let asked = Asked { text: "", turns: &[], sequence: 0, max_tokens: 2, options: &options, server: &server };
        let (sender, events) = std::sync::mpsc::sync_channel(8);
        let before_ns = dwell_clock::monotonic_ns();
        let numbered = Numbered { request: 0, asked, is_told: false };
        ask(&mut Late, &numbered, &Teller(sender), &Interruption::default()).unwrap();
        let told: Vec<(EngineEvent, u64)> = events.iter().collect();
        let tokens = told.iter().filter(|(event, _)| matches!(event, EngineEvent::Token { .. }));
        assert_eq!(tokens.map(|(_, time_ns)| *time_ns).collect::<Vec<_>>(), [7, 9]);
        assert!(matches!(told[0].0, EngineEvent::RequestBegins { .. }) && told[0].1 >= before_ns);
    }

    #[test]
    fn the_reason_of_an_end_follows_from_the_figures() {
        let answer = |generated, prompt, is_interrupted| Answer {
            sequence: 0,
            text: String::new(),
            timings: RequestTimings { generated_tokens: generated, prompt_tokens: prompt, ..RequestTimings::default() },
            tokens: 4,
            is_interrupted,
            is_limit_ignored: false,
        };
        assert_eq!(stop_reason(&answer(Some(8), Some(10), false), 8, Some(256)), StopReason::MaxTokens);
        assert_eq!(stop_reason(&answer(Some(6), Some(10), false), 8, Some(256)), StopReason::EndOfGeneration);
        assert_eq!(stop_reason(&answer(Some(6), Some(250), false), 8, Some(256)), StopReason::ContextFull);
        assert_eq!(stop_reason(&answer(None, None, false), 4, None), StopReason::MaxTokens);
        assert_eq!(stop_reason(&answer(None, None, true), 8, None), StopReason::Interrupted);
    }
}
