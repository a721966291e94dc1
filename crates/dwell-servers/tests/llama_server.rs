//! A real llama-server, started and joined: what is told of it is what it does.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod llama;

use dwell_events::engine::{Action, EngineEvent, EngineKind, KvType, StopReason};
use dwell_events::server::{Api, BufferKind, StartKind};
use dwell_gguf::{GgufFile, MakeSpec, ModelShape};
use llama::{OwnServer, Workplace, generate, is_token, job, llama_program, prompt, run, trained_model};
use serde_json::json;

#[test]
fn a_started_server_is_told_of_in_order_and_ended() {
    let Some(program) = llama_program("a_started_server_is_told_of_in_order_and_ended", "llama-server") else { return };
    let place = Workplace::new();
    let model = place.model(MakeSpec::default());
    let told = run(
        place.place(),
        &job(EngineKind::LlamaServer, &program, &model, vec![prompt("abc", &[0]), generate(6, &[0])]),
    );
    assert_eq!(
        told.order(),
        [
            "phase_begins",
            "process_found",
            "memory_reported",
            "serving",
            "loaded",
            "server_metrics",
            "phase_begins",
            "request_begins",
            "token",
            "request_ends",
            "stopped",
            "server_metrics",
            "phase_begins",
            "finished",
        ]
    );
    assert_eq!(told.steps(0), [0, 1, 2, 3, 4, 5]);
    assert_eq!(told.reasons(), [(0, StopReason::MaxTokens)]);
    assert!(told.pids().iter().all(|&pid| llama::is_gone(pid)), "the server was waited for");
    let facts = told.facts();
    assert!(facts.is_started_here && facts.version.unwrap().starts_with("llama.cpp "));
    assert_eq!(facts.model_path, Some(model));
    assert_eq!((facts.context_length, facts.slots, facts.was_loaded), (Some(512), Some(1), Some(false)));
    assert_eq!(facts.untraced_because.as_deref(), Some("the recorder was not asked for"));
    let timings = told.timings()[0];
    assert_eq!((timings.prompt_tokens, timings.cached_tokens, timings.generated_tokens), (Some(4), Some(0), Some(6)));
    assert!(timings.prompt_ns.unwrap() > 0 && timings.decode_ns.unwrap() > 0);
    assert!(timings.total_ns.unwrap() >= timings.prompt_ns.unwrap());
    let Some(EngineEvent::Finished { prompt_tokens: 4, generated_tokens: 6, .. }) = told.0.last() else {
        panic!("{:?}", told.0.last());
    };
    let loaded = told.0.iter().find_map(|event| match event {
        EngineEvent::Loaded { model } => Some(model.clone()),
        _ => None,
    });
    let loaded = loaded.unwrap();
    assert_eq!((loaded.layers, loaded.vocabulary, loaded.context_length, loaded.threads), (4, 512, 512, 1));
}

#[test]
fn a_joined_server_gives_what_it_gives_without_dwell_and_is_left_alone() {
    let name = "a_joined_server_gives_what_it_gives_without_dwell_and_is_left_alone";
    let (Some(program), Some(model)) = (llama_program(name, "llama-server"), trained_model(name)) else { return };
    let mut server = OwnServer::start(&program, &model, &["-np", "2"]);
    let text = "The sea is";
    let body = json!({ "prompt": text, "n_predict": 12, "temperature": 0, "return_tokens": true, "ignore_eos": true });
    let plain = server.ask("/completion", &body);

    let place = Workplace::new();
    let mut joined = job(EngineKind::LlamaServer, &program, &model, vec![prompt(text, &[0]), generate(12, &[0])]);
    joined.server.url = Some(server.url.clone());
    let told = run(place.place(), &joined);
    let ids: Vec<i64> = told.ids(0).into_iter().map(i64::from).collect();
    assert_eq!(json!(ids), plain["tokens"]);
    assert_eq!(told.text(0), plain["content"].as_str().unwrap());
    assert_eq!(told.pids(), [server.pid()], "found by its port");
    let facts = told.facts();
    assert!(!facts.is_started_here);
    assert_eq!((facts.was_loaded, facts.slots, facts.context_length), (Some(true), Some(2), Some(256)));
    assert!(facts.untraced_because.unwrap().contains("started before the run"));
    assert!(server.is_alive());

    joined.server.start = StartKind::Cold;
    let (failure, _) = llama::fail(place.place(), &joined);
    assert!(failure.message.contains("cannot unload its model"), "{failure:?}");
    assert!(server.is_alive());
}

#[test]
fn a_message_is_answered_as_by_the_servers_own_chat() {
    let name = "a_message_is_answered_as_by_the_servers_own_chat";
    let (Some(program), Some(model)) = (llama_program(name, "llama-server"), trained_model(name)) else { return };
    let server = OwnServer::start(&program, &model, &[]);
    let first = json!({ "role": "user", "content": "Name a colour." });
    let answer_to = |messages| {
        let answer =
            server.ask("/v1/chat/completions", &json!({ "messages": messages, "max_tokens": 8, "temperature": 0 }));
        answer["choices"][0]["message"]["content"].as_str().unwrap().to_owned()
    };
    let one = answer_to(json!([first]));
    let second = json!({ "role": "user", "content": "Another one." });
    let two = answer_to(json!([first, { "role": "assistant", "content": one }, second]));

    let place = Workplace::new();
    let actions =
        vec![prompt("Name a colour.", &[0]), generate(8, &[0]), prompt("Another one.", &[0]), generate(8, &[0])];
    let mut joined = job(EngineKind::LlamaServer, &program, &model, actions);
    joined.options.ignore_end = false;
    joined.server.url = Some(server.url.clone());
    joined.server.api = Api::Chat;
    let told = run(place.place(), &joined);
    assert_eq!(told.text(0), one + &two);
}

#[test]
fn sequences_run_side_by_side_in_slots_of_their_own() {
    let Some(program) = llama_program("sequences_run_side_by_side_in_slots_of_their_own", "llama-server") else {
        return;
    };
    let place = Workplace::new();
    let model = place.model(MakeSpec::default());
    let actions = vec![prompt("abc", &[0, 1]), prompt(" and more", &[1]), generate(40, &[0, 1])];
    let mut both = job(EngineKind::LlamaServer, &program, &model, actions);
    both.options.parallel = 2;
    let told = run(place.place(), &both);
    assert_eq!(told.facts().slots, Some(2));
    assert_eq!((told.steps(0).len(), told.steps(1).len()), (40, 40));
    let begins = told.0.iter().rposition(|event| matches!(event, EngineEvent::RequestBegins { .. })).unwrap();
    let ends = told.0.iter().position(|event| matches!(event, EngineEvent::RequestEnds { .. })).unwrap();
    assert!(begins < ends, "the second began before the first had ended");
    let requests: Vec<(u32, i32)> = told
        .0
        .iter()
        .filter_map(|event| match event {
            EngineEvent::RequestBegins { request, sequence } => Some((*request, *sequence)),
            _ => None,
        })
        .collect();
    assert!(requests.contains(&(0, 0)) && requests.contains(&(1, 1)), "{requests:?}");

    let alone = run(
        place.place(),
        &job(EngineKind::LlamaServer, &program, &model, vec![prompt("abc", &[0]), generate(40, &[0])]),
    );
    assert_eq!(told.text(0)[..10], alone.text(0)[..10], "beside another as alone");
}

#[test]
fn a_conversation_that_goes_on_finds_its_prefix_in_the_cache() {
    let Some(program) = llama_program("a_conversation_that_goes_on_finds_its_prefix_in_the_cache", "llama-server")
    else {
        return;
    };
    let place = Workplace::new();
    let model = place.model(MakeSpec::default());
    let actions = vec![prompt("abcdefgh", &[0]), generate(5, &[0]), prompt(" ijkl", &[0]), generate(5, &[0])];
    let told = run(place.place(), &job(EngineKind::LlamaServer, &program, &model, actions));
    let [first, second] = told.timings()[..] else { panic!("{:?}", told.timings()) };
    assert_eq!(first.cached_tokens, Some(0));
    assert!(second.cached_tokens.unwrap() >= first.prompt_tokens.unwrap(), "{second:?}");
    assert!(second.prompt_tokens.unwrap() > second.cached_tokens.unwrap());
}

#[test]
fn a_prompt_is_filled_to_exactly_as_many_tokens() {
    let name = "a_prompt_is_filled_to_exactly_as_many_tokens";
    let (Some(program), Some(model)) = (llama_program(name, "llama-server"), trained_model(name)) else { return };
    let place = Workplace::new();
    for api in [Api::Completion, Api::Chat] {
        let text = "The harbour was quiet in the early morning. ".to_owned();
        let filled = Action::Prompt { text, sequences: vec![0], fill_to_tokens: Some(301) };
        let mut asked = job(EngineKind::LlamaServer, &program, &model, vec![filled, generate(2, &[0])]);
        asked.server.api = api;
        let told = run(place.place(), &asked);
        assert_eq!(told.timings()[0].prompt_tokens, Some(301), "{}", api.name());
        assert_eq!(told.timings()[0].cached_tokens, Some(0), "counting leaves nothing in the cache");
    }
}

#[test]
fn every_setting_reaches_the_server_and_its_buffers_have_the_size_of_theory() {
    let name = "every_setting_reaches_the_server_and_its_buffers_have_the_size_of_theory";
    let Some(program) = llama_program(name, "llama-server") else { return };
    let place = Workplace::new();
    let model = place.model(MakeSpec { layers: 8, embedding: 128, context: 4096, ..MakeSpec::default() });
    let shape = ModelShape::from_gguf(&GgufFile::open(&model).unwrap()).unwrap();
    for kv_type in [KvType::F16, KvType::Q8_0, KvType::Q4_0] {
        let mut asked = job(EngineKind::LlamaServer, &program, &model, vec![prompt("abc", &[0]), generate(2, &[0])]);
        asked.options.context_length = 4096;
        asked.options.kv_type_k = kv_type;
        asked.options.kv_type_v = kv_type;
        asked.options.mmap = kv_type == KvType::F16;
        asked.options.repack = false;
        asked.options.kv_unified = true;
        asked.options.parallel = 2;
        let told = run(place.place(), &asked);
        let reported = told.0.iter().find_map(|event| match event {
            EngineEvent::MemoryReported { buffers } => Some(buffers.clone()),
            _ => None,
        });
        let reported = reported.unwrap();
        let of_kind =
            |kind| reported.iter().filter(|buffer| buffer.kind == kind).map(|buffer| buffer.bytes).sum::<u64>();
        let theory = 4096 * shape.kv_bytes_per_token(kv_type, kv_type).unwrap();
        // The log has two digits after the point.
        let rounding = (1 << 20) / 200 + 1;
        assert!(of_kind(BufferKind::KvCache).abs_diff(theory) <= rounding, "{reported:?}, theory {theory}");
        let weights = reported.iter().find(|buffer| buffer.kind == BufferKind::Weights).unwrap();
        assert_eq!(weights.is_mapped, asked.options.mmap);
        let facts = told.facts();
        assert_eq!(facts.kv_type_k.as_deref(), Some(kv_type.name()));
        assert_eq!(facts.context_length, Some(4096), "slots of a unified cache have all of it");
    }
}

#[test]
fn a_warm_start_asks_once_before_and_tells_nothing_of_it() {
    let Some(program) = llama_program("a_warm_start_asks_once_before_and_tells_nothing_of_it", "llama-server") else {
        return;
    };
    let place = Workplace::new();
    let model = place.model(MakeSpec::default());
    let mut warm = job(EngineKind::LlamaServer, &program, &model, vec![prompt("abc", &[0]), generate(3, &[0])]);
    let predicted = |told: &llama::Told| -> Vec<f64> {
        let of = |event: &EngineEvent| match event {
            EngineEvent::ServerMetrics { values } => values.get("llamacpp:tokens_predicted_total").copied(),
            _ => None,
        };
        told.0.iter().filter_map(of).collect()
    };
    let as_found = run(place.place(), &warm);
    assert_eq!(predicted(&as_found), [0.0, 3.0]);
    warm.server.start = StartKind::Warm;
    let told = run(place.place(), &warm);
    assert_eq!(predicted(&told), [1.0, 4.0], "one token more, before the first figures");
    assert_eq!(told.0.iter().filter(|event| is_token(event)).count(), 3);
    assert_eq!(told.timings().len(), 1);
    assert_eq!(told.ids(0), as_found.ids(0));
}

#[test]
fn a_started_server_is_recorded_from_within() {
    let name = "a_started_server_is_recorded_from_within";
    let Some(program) = llama_program(name, "llama-server") else { return };
    let place = Workplace::new();
    let Some(recorded) = place.recorded(name) else { return };
    let model = place.model(MakeSpec::default());
    let asked = job(EngineKind::LlamaServer, &program, &model, vec![prompt("abc", &[0]), generate(3, &[0])]);
    let told = run(recorded.clone(), &asked);
    assert_eq!(told.facts().untraced_because, None);
    assert!(recorded.ring_dir.as_ref().unwrap().join(format!("{}.ring", told.pids()[0])).exists());
    assert_eq!(told.ids(0), run(place.place(), &asked).ids(0), "recorded or not");

    // A program that drops the variable is told apart.
    let dropping = place.script("llama-server", &format!("unset LD_PRELOAD\nexec {program:?} \"$@\""));
    let told = run(recorded, &job(EngineKind::LlamaServer, &dropping, &model, asked.actions.clone()));
    assert!(told.facts().untraced_because.unwrap().starts_with("the library was not preloaded"));
}
