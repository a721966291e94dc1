//! Servers that refuse, break off, stall or talk nonsense: each gives an error that says what happened, and what had come
//! before is kept.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "../../../tests/hostile_server.rs"]
mod hostile_server;
mod http;

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::Duration;

use dwell_events::Hint;
use dwell_events::engine::{EngineEvent, EngineFailure, EngineKind, StopReason};
use dwell_events::server::StartKind;
use dwell_servers::{HttpClient, HttpError, HttpLimits, Interruption};
use hostile_server::{Behaviour, start_server};
use http::{
    Request, ScriptedServer, Watcher, begin_stream, flag, job, passes_with, run, token, write_answer, write_chunk,
};
use serde_json::Value;

const CLOSED: &str = "the server closed the connection before the end";

/// Asks a server that streams one token well and, when that has come, does this; gives the error.
fn broken_after_a_token(misbehave: impl Fn(&mut TcpStream) + Send + Sync + 'static) -> String {
    let (got_token, has_token) = channel();
    let has_token = Mutex::new(has_token);
    let server = ScriptedServer::with_model(move |_, connection| {
        begin_stream(connection);
        write_chunk(connection, &token("one")).unwrap();
        has_token.lock().unwrap().recv().unwrap();
        misbehave(connection);
    });
    let mut watcher = Watcher::calling(move |event| {
        if matches!(event, EngineEvent::Token { .. }) {
            got_token.send(()).unwrap();
        }
    });
    let failure = run(&job(EngineKind::OpenAi, &server.url, "Say one.", 8), &mut watcher).unwrap_err();
    assert_eq!(watcher.tokens(0), ["one"], "{}", failure.message);
    failure.message.replace(&format!("POST {}/v1/completions", server.url), "ASKED")
}

/// Asks a server whose answer for text is this.
fn answered_with(status: u16, body: &'static str) -> EngineFailure {
    let server = ScriptedServer::with_model(move |_, connection| write_answer(connection, status, body));
    let mut failure = run(&job(EngineKind::OpenAi, &server.url, "x", 8), &mut Watcher::default()).unwrap_err();
    failure.message = failure.message.replace(&server.url, "URL");
    failure
}

fn client(url: &str) -> HttpClient {
    HttpClient::new(EngineKind::OpenAi, url, None, Interruption::default()).unwrap()
}

#[test]
fn a_server_that_is_not_there_is_named_with_the_way_to_start_it() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    for (engine, path, hint) in [
        (EngineKind::Ollama, "/api/version", "start it: ollama serve"),
        (EngineKind::Vllm, "/v1/models", "start it: vllm serve MODEL"),
        (EngineKind::OpenAi, "/v1/models", "check the address: --url http://HOST:PORT"),
    ] {
        let failure = run(&job(engine, &url, "x", 1), &mut Watcher::default()).unwrap_err();
        assert_eq!(
            failure.message,
            format!("asking GET {url}{path} reached no server: Connection refused (os error 111)")
        );
        assert_eq!(failure.hints[0], hint);
    }
}

#[test]
fn a_host_that_does_not_exist_is_no_server() {
    let error = client("http://no-such-host.invalid:1").get_text("/").unwrap_err();
    assert!(matches!(&error, HttpError::NotReached { .. }), "{error}");
}

#[test]
fn a_connection_that_is_reset_in_the_middle_keeps_what_came() {
    let message = broken_after_a_token(|connection| {
        // Closing then sends a reset instead of an end.
        rustix::net::sockopt::set_socket_linger(&*connection, Some(Duration::ZERO)).unwrap();
    });
    let bytes = token("one").len();
    assert_eq!(message, format!("reading the answer to ASKED ended after {bytes} bytes: {CLOSED}"));
}

#[test]
fn an_answer_that_ends_early_is_cut_off() {
    let bytes = token("one").len();
    let closed = broken_after_a_token(|connection| connection.shutdown(Shutdown::Both).unwrap());
    assert_eq!(closed, format!("reading the answer to ASKED ended after {bytes} bytes: {CLOSED}"));
    let inside_a_chunk = broken_after_a_token(|connection| connection.write_all(b"ff\r\ndata: {\"cho").unwrap());
    assert_eq!(inside_a_chunk, format!("reading the answer to ASKED ended after {} bytes: {CLOSED}", bytes + 11));
}

#[test]
fn a_stream_without_its_last_event_is_cut_off_though_http_is_whole() {
    let message = broken_after_a_token(|connection| connection.write_all(b"0\r\n\r\n").unwrap());
    let bytes = token("one").len();
    assert_eq!(
        message,
        format!("reading the answer to ASKED ended after {bytes} bytes: the stream ended without its last event")
    );
}

#[test]
fn chunks_that_are_none_are_refused() {
    let message = broken_after_a_token(|connection| connection.write_all(b"many\r\n").unwrap());
    assert!(message.ends_with("protocol: chunk length cannot be read as a number"), "{message}");
}

#[test]
fn an_event_that_is_no_json_is_shown_with_its_number() {
    let message = broken_after_a_token(|connection| write_chunk(connection, b"data: {\"choices\": oops\n\n").unwrap());
    assert_eq!(
        message,
        "reading event 2 of the answer to ASKED found invalid JSON (expected value at line 1 column 13): \
         \"{\\\"choices\\\": oops\""
    );
    let message = broken_after_a_token(|connection| write_chunk(connection, b"data: {\"choices\": 7}\n\n").unwrap());
    assert!(
        message.starts_with("reading event 2 of the answer to ASKED found invalid JSON (invalid type: "),
        "{message}"
    );
}

#[test]
fn bytes_that_are_no_text_are_refused_with_their_number() {
    let message = broken_after_a_token(|connection| write_chunk(connection, b"data: \xff\xfe\n\n").unwrap());
    assert_eq!(
        message,
        "reading event 2 of the answer to ASKED found bytes that are no UTF-8: \"data: \u{fffd}\u{fffd}\""
    );
}

#[test]
fn a_line_without_end_is_not_read_for_ever() {
    let message = broken_after_a_token(|connection| while write_chunk(connection, &[b'x'; 65536]).is_ok() {});
    assert_eq!(message, "reading the answer to ASKED found more than 4194304 bytes in event 2");
}

#[test]
fn an_error_in_the_middle_is_told_in_the_servers_words() {
    let message = broken_after_a_token(|connection| {
        write_chunk(connection, b"data: {\"error\":{\"message\":\"out of blocks\",\"code\":500}}\n\n").unwrap();
    });
    assert_eq!(message, "the server broke off its answer to ASKED at event 2: out of blocks");
}

#[test]
fn refusals_show_status_and_words_and_what_to_do() {
    let unauthorized = answered_with(401, r#"{"error":{"message":"Invalid API key"}}"#);
    assert_eq!(unauthorized.message, "asking POST URL/v1/completions was answered with status 401: Invalid API key");
    assert_eq!(unauthorized.hints, ["name the environment variable that holds the key: --api-key-env NAME"]);
    let no_such_path = answered_with(404, "404 page not found");
    assert_eq!(no_such_path.message, "asking POST URL/v1/completions was answered with status 404: 404 page not found");
    assert_eq!(no_such_path.hints, ["check that the address is that of the engine: --url http://HOST:PORT"]);
    let no_such_model = answered_with(404, r#"{"error":{"message":"The model `the-model` does not exist."}}"#);
    assert_eq!(
        no_such_model.message,
        "asking openai for the model \"the-model\": The model `the-model` does not exist.; it has the-model"
    );
    let broken = answered_with(500, "");
    assert_eq!(broken.message, "asking POST URL/v1/completions was answered with status 500: nothing");
    let moved = answered_with(302, "<html>elsewhere</html>");
    assert!(moved.message.ends_with("was answered with status 302: <html>elsewhere</html>"), "{}", moved.message);
}

#[test]
fn something_that_is_no_http_is_said_to_be_none() {
    let server = ScriptedServer::new(|_, connection| connection.write_all(b"SSH-2.0-OpenSSH_9.9\r\n").unwrap());
    let error = client(&server.url).get_text("/v1/models").unwrap_err().to_string();
    let expected =
        format!("reading the answer to GET {}/v1/models ended after 0 bytes: protocol: http parse fail", server.url);
    assert!(error.starts_with(&expected), "{error}");
}

#[test]
fn a_body_that_is_no_json_or_too_large_is_refused() {
    let server = ScriptedServer::new(|request, connection| match request.path.as_str() {
        "/page" => write_answer(connection, 200, "<html>\nhello</html>"),
        _ => write_answer(connection, 200, &format!("\"{}\"", "x".repeat(5000))),
    });
    let page = client(&server.url).get_json::<Value>("/page").unwrap_err();
    assert_eq!(
        page.to_string().replace(&server.url, "URL"),
        "reading the body of the answer to GET URL/page found invalid JSON (expected value at line 1 column 1): \
         \"<html> hello</html>\""
    );
    assert_eq!(page.hints(), ["check that the address is that of the engine: --url http://HOST:PORT"]);
    let limits = HttpLimits { body_bytes: 1000, ..HttpLimits::default() };
    let large = client(&server.url).with_limits(limits).get_json::<Value>("/large").unwrap_err();
    assert_eq!(
        large.to_string().replace(&server.url, "URL"),
        "reading the answer to GET URL/large found more than 1000 bytes in the body"
    );
}

#[test]
fn a_server_that_says_nothing_is_given_up() {
    let server = ScriptedServer::new(|_, connection| wait_for_the_client_to_leave(connection));
    let limits = HttpLimits { answer: Duration::from_secs(1), ..HttpLimits::default() };
    let error = client(&server.url).with_limits(limits).get_text("/v1/models").unwrap_err();
    let expected = "asking GET URL/v1/models: no data from the server for 1 s, after 0 bytes of the answer";
    assert_eq!(error.to_string().replace(&server.url, "URL"), expected);
}

#[test]
fn a_stalled_stream_is_left_when_the_user_interrupts() {
    let (left, has_left) = flag();
    let server = ScriptedServer::with_model(move |_, connection| {
        begin_stream(connection);
        write_chunk(connection, &token("one")).unwrap();
        wait_for_the_client_to_leave(connection);
        left.store(true, Ordering::SeqCst);
    });
    let mut watcher = Watcher { interrupt_after_tokens: Some(1), ..Watcher::default() };
    run(&job(EngineKind::OpenAi, &server.url, "x", 8), &mut watcher).unwrap();
    assert_eq!(watcher.tokens(0), ["one"]);
    let is_interrupted = |event: &EngineEvent| matches!(event, EngineEvent::Stopped { reason, .. } if format!("{reason:?}") == "Interrupted");
    assert!(watcher.events.iter().any(is_interrupted), "{:?}", watcher.events);
    // The server learns of it too: its connection ends.
    while !has_left() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_server_that_never_answers_is_left_when_the_user_interrupts() {
    let server = ScriptedServer::with_model(|_, connection| wait_for_the_client_to_leave(connection));
    let mut watcher = Watcher { interrupt_after_tokens: Some(0), ..Watcher::default() };
    run(&job(EngineKind::OpenAi, &server.url, "x", 8), &mut watcher).unwrap();
    assert!(watcher.tokens(0).is_empty());
}

/// Returns when the connection has ended, however it did.
/// A server that streams this for ever, until the client leaves.
fn endless(chunk: Vec<u8>) -> ScriptedServer {
    ScriptedServer::with_model(move |_, connection| {
        begin_stream(connection);
        while write_chunk(connection, &chunk).is_ok() {}
    })
}

/// Why answers ended.
fn stops(watcher: &Watcher) -> Vec<StopReason> {
    let stops = watcher.events.iter().filter_map(|event| match event {
        EngineEvent::Stopped { reason, .. } => Some(*reason),
        _ => None,
    });
    stops.collect()
}

#[test]
fn an_answer_that_breaks_off_while_it_is_interrupted_is_no_whole_one() {
    let url = start_server(Behaviour::CutOff).unwrap();
    for tokens in [0, 1] {
        let mut watcher = Watcher { interrupt_after_tokens: Some(tokens), ..Watcher::default() };
        run(&job(EngineKind::OpenAi, &url, "x", 8), &mut watcher).unwrap();
        assert!(stops(&watcher).contains(&StopReason::Interrupted), "after {tokens}: {:?}", stops(&watcher));
    }
}

#[test]
fn tokens_of_megabytes_and_a_million_ids_at_once_are_more_than_was_asked_for() {
    for behaviour in [Behaviour::HugeTokens, Behaviour::ManyIds] {
        let mut watcher = Watcher::default();
        run(&job(EngineKind::OpenAi, &start_server(behaviour).unwrap(), "x", 8), &mut watcher).unwrap();
        assert_eq!(stops(&watcher), [StopReason::LimitIgnored], "{behaviour:?}");
        let tokens = watcher.tokens(0);
        let text_bytes: usize = tokens.iter().map(|text| text.len()).sum();
        assert!(tokens.len() <= 8 + 8 / 4 + 32 && text_bytes < 2 << 20, "{behaviour:?}: {} tokens", tokens.len());
    }
}

#[test]
fn a_server_that_goes_on_after_its_tokens_is_stopped_and_the_run_says_so() {
    let server = endless(token("on").repeat(100));
    let mut watcher = Watcher::default();
    run(&job(EngineKind::OpenAi, &server.url, "x", 8), &mut watcher).unwrap();
    assert_eq!(watcher.tokens(0).len(), 8 + 8 / 4 + 32);
    assert_eq!(stops(&watcher), [StopReason::LimitIgnored]);
}

#[test]
fn a_warm_up_that_does_not_end_is_ended() {
    let server = endless(token("on"));
    let mut job = job(EngineKind::OpenAi, &server.url, "x", 8);
    job.server.start = StartKind::Warm;
    run(&job, &mut Watcher::default()).unwrap();
}

#[test]
fn events_without_a_token_and_comments_do_not_come_for_ever() {
    for behaviour in [Behaviour::EmptyEvents, Behaviour::Comments] {
        let url = start_server(behaviour).unwrap();
        let failure = run(&job(EngineKind::OpenAi, &url, "x", 8), &mut Watcher::default()).unwrap_err();
        assert!(failure.message.contains("it went on for 16 MiB without a token"), "{}", failure.message);
    }
}

fn wait_for_the_client_to_leave(connection: &mut TcpStream) {
    let mut byte = [0];
    while matches!(connection.read(&mut byte), Ok(1..)) {}
}

#[test]
fn a_limit_of_tokens_is_asked_for_by_the_name_that_the_server_knows() {
    let server = ScriptedServer::with_model(|request: &Request, connection| {
        if request.body.get("max_tokens").is_some() {
            let said = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead.";
            return write_answer(connection, 400, &serde_json::json!({"error": {"message": said}}).to_string());
        }
        begin_stream(connection);
        write_chunk(connection, &token("one")).unwrap();
        write_chunk(connection, b"data: [DONE]\n\n").unwrap();
        connection.write_all(b"0\r\n\r\n").unwrap();
    });
    let mut watcher = Watcher::default();
    run(&job(EngineKind::OpenAi, &server.url, "x", 8), &mut watcher).unwrap();
    assert_eq!(watcher.tokens(0), ["one"]);
    let limits: Vec<bool> =
        server.requests().iter().map(|request| request.body["max_completion_tokens"] == 8).collect();
    assert_eq!(limits, [false, false, true], "the list of models, the refused question, the one that was answered");
}

#[test]
fn a_question_that_is_refused_twice_is_not_asked_for_ever() {
    let failure = answered_with(400, r#"{"error":"stream_options and max_completion_tokens and nothing else"}"#);
    assert!(failure.message.contains("status 400"), "{}", failure.message);
}

const KEY_VARIABLE: &str = "DWELL_TEST_API_KEY";

#[test]
fn the_key_is_sent_and_shown_nowhere() {
    let Ok(key) = std::env::var(KEY_VARIABLE) else {
        return passes_with("the_key_is_sent_and_shown_nowhere", &[(KEY_VARIABLE, "very-secret-key")]);
    };
    let server = ScriptedServer::new(|_, connection| write_answer(connection, 500, "no"));
    let client = HttpClient::new(EngineKind::OpenAi, &server.url, Some(KEY_VARIABLE), Interruption::default()).unwrap();
    let error = client.get_text("/v1/models").unwrap_err();
    assert!(!format!("{error} {error:?} {:?}", error.hints()).contains(&key));
    let head = server.requests()[0].head.to_ascii_lowercase();
    assert!(head.contains(&format!("authorization: bearer {key}\r\n")), "{head}");
}

#[test]
fn a_key_that_is_not_there_is_missed_before_anything_is_asked() {
    let new =
        |variable| HttpClient::new(EngineKind::OpenAi, "http://127.0.0.1:1", Some(variable), Interruption::default());
    let error = new("DWELL_NO_SUCH_VARIABLE").err().unwrap();
    let expected = "reading the key of the API found nothing in the environment variable DWELL_NO_SUCH_VARIABLE";
    assert_eq!(error.to_string(), expected);
    assert_eq!(error.hints(), ["export DWELL_NO_SUCH_VARIABLE=…"]);
}

#[test]
fn no_proxy_stands_before_this_machine() {
    if std::env::var_os("http_proxy").is_none_or(|proxy| proxy != DEAD_PROXY) {
        let variables = ["http_proxy", "https_proxy", "ALL_PROXY"].map(|name| (name, DEAD_PROXY));
        return passes_with("no_proxy_stands_before_this_machine", &variables);
    }
    let server = ScriptedServer::new(|_, connection| write_answer(connection, 200, "here"));
    assert_eq!(client(&server.url).get_text("/").unwrap(), "here");
    let elsewhere = client("http://192.0.2.1:80").get_text("/").unwrap_err().to_string();
    assert!(elsewhere.contains("Connection refused"), "the proxy is asked for other machines: {elsewhere}");
}

/// Nobody listens there.
const DEAD_PROXY: &str = "http://127.0.0.1:9";
