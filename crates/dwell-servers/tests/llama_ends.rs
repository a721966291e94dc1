//! How a run with a real server ends when something goes wrong, or somebody ends it.

#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

mod llama;

use std::process::{Command, Stdio};

use dwell_events::engine::{Engine, EngineEvent, EngineKind, Job, StopReason};
use dwell_gguf::MakeSpec;
use dwell_servers::ServerEngine;
use llama::{
    OwnServer, Told, Watcher, Workplace, fail, generate, is_gone, is_token, job, llama_program, pids, prompt, send,
    wait_for,
};
use rustix::process::Signal;

/// A job that takes longer than the test looks at it.
fn long_job(engine: EngineKind, program: &std::path::Path, model: &std::path::Path) -> Job {
    let mut long = job(engine, program, model, vec![prompt("abc", &[0]), generate(4000, &[0])]);
    long.options.context_length = 4096;
    long
}

#[test]
fn a_server_that_is_killed_leaves_a_partial_run_that_says_how() {
    let name = "a_server_that_is_killed_leaves_a_partial_run_that_says_how";
    let Some(program) = llama_program(name, "llama-server") else { return };
    let place = Workplace::new();
    let model = place.model(MakeSpec::default());
    let mut watcher = Watcher::watching(|events| {
        if events.iter().filter(|event| is_token(event)).count() == 5 && is_token(events.last().unwrap()) {
            send(pids(events)[0], Signal::KILL);
        }
        false
    });
    let long = long_job(EngineKind::LlamaServer, &program, &model);
    let failure = ServerEngine::new(place.place()).run(&long, &mut watcher).unwrap_err();
    assert!(
        failure.message.starts_with("generating: the program was ended by signal 9 (SIGKILL); it said: "),
        "{failure:?}"
    );
    let told = Told(watcher.events);
    assert!(told.ids(0).len() >= 5, "what came before stays");
    assert!(told.timings().is_empty() && !told.order().contains(&"finished".to_owned()));
    assert!(is_gone(told.pids()[0]), "it was waited for");
}

#[test]
fn a_joined_server_that_dies_breaks_the_answer_off() {
    let Some(program) = llama_program("a_joined_server_that_dies_breaks_the_answer_off", "llama-server") else {
        return;
    };
    let place = Workplace::new();
    let model = place.model(MakeSpec::default());
    let server = OwnServer::start(&program, &model, &["-c", "4096"]);
    let mut watcher = Watcher::watching(|events| {
        if events.iter().filter(|event| is_token(event)).count() == 5 && is_token(events.last().unwrap()) {
            send(server.pid(), Signal::KILL);
        }
        false
    });
    let mut joined = long_job(EngineKind::LlamaServer, &program, &model);
    joined.server.url = Some(server.url.clone());
    let failure = ServerEngine::new(place.place()).run(&joined, &mut watcher).unwrap_err();
    assert!(failure.message.contains("reading the answer to POST"), "{failure:?}");
    assert!(Told(watcher.events).ids(0).len() >= 5);
}

#[test]
fn an_interruption_while_generating_ends_the_request_and_the_server() {
    let name = "an_interruption_while_generating_ends_the_request_and_the_server";
    for (engine, program) in [(EngineKind::LlamaServer, "llama-server"), (EngineKind::LlamaCli, "llama-completion")] {
        let Some(program) = llama_program(name, program) else { return };
        let place = Workplace::new();
        let model = place.model(MakeSpec::default());
        let mut watcher = Watcher::watching(|events| is_token(events.last().unwrap()));
        ServerEngine::new(place.place()).run(&long_job(engine, &program, &model), &mut watcher).unwrap();
        let told = Told(watcher.events);
        assert_eq!(told.reasons(), [(0, StopReason::Interrupted)], "{}", engine.name());
        assert!(told.steps(0).len() < 4000 && told.timings().is_empty());
        assert!(matches!(told.0.last(), Some(EngineEvent::Finished { .. })));
        assert!(told.pids().iter().all(|&pid| is_gone(pid)));
    }
}

#[test]
fn an_interruption_leaves_a_joined_server_alone() {
    let Some(program) = llama_program("an_interruption_leaves_a_joined_server_alone", "llama-server") else { return };
    let place = Workplace::new();
    let model = place.model(MakeSpec::default());
    let mut server = OwnServer::start(&program, &model, &["-c", "4096"]);
    let mut joined = long_job(EngineKind::LlamaServer, &program, &model);
    joined.server.url = Some(server.url.clone());
    let mut watcher = Watcher::watching(|events| is_token(events.last().unwrap()));
    ServerEngine::new(place.place()).run(&joined, &mut watcher).unwrap();
    assert_eq!(Told(watcher.events).reasons(), [(0, StopReason::Interrupted)]);
    assert!(server.is_alive());
    // The server has noticed that nobody listens any more.
    wait_for("an idle server", || {
        let slots: serde_json::Value = server.client().get_json("/slots").unwrap();
        (slots[0]["is_processing"] == false).then_some(())
    });
}

#[test]
fn an_interruption_while_loading_ends_the_wait_and_the_server() {
    let Some(program) = llama_program("an_interruption_while_loading_ends_the_wait_and_the_server", "llama-server")
    else {
        return;
    };
    let place = Workplace::new();
    let model = place.model(MakeSpec::default());
    let never_ready = place.script(
        "llama-server",
        &format!("case \"$1\" in --help|--version) exec {program:?} \"$@\";; esac\nexec sleep 600"),
    );
    let asked = job(EngineKind::LlamaServer, &never_ready, &model, vec![prompt("abc", &[0]), generate(2, &[0])]);
    let mut watcher = Watcher::watching(|events| !pids(events).is_empty());
    ServerEngine::new(place.place()).run(&asked, &mut watcher).unwrap();
    let told = Told(watcher.events);
    assert_eq!(told.order(), ["phase_begins", "process_found", "stopped", "phase_begins", "finished"]);
    assert!(is_gone(told.pids()[0]));

    // Nor does a program that never says what it can do hold up anybody.
    let silent = place.script("silent", "exec sleep 600");
    let unasked = job(EngineKind::LlamaServer, &silent, &model, asked.actions.clone());
    let mut watcher = Watcher::watching(|_| true);
    ServerEngine::new(place.place()).run(&unasked, &mut watcher).unwrap();
    assert_eq!(Told(watcher.events).order(), ["phase_begins", "stopped", "phase_begins", "finished"]);

    let mut impatient = asked;
    impatient.server.ready_within_s = Some(1);
    let (failure, told) = fail(place.place(), &impatient);
    assert!(failure.message.starts_with("llama_server did not become ready within 1 s"), "{failure:?}");
    assert!(is_gone(told.pids()[0]));
}

#[test]
fn what_cannot_be_started_says_why() {
    let Some(program) = llama_program("what_cannot_be_started_says_why", "llama-server") else { return };
    let place = Workplace::new();
    let model = place.model(MakeSpec::default());
    let text = place.path().join("text.gguf");
    std::fs::write(&text, "This is no model.").unwrap();
    let broken = place.path().join("broken.gguf");
    std::fs::write(&broken, &std::fs::read(&model).unwrap()[..4096]).unwrap();
    let actions = || vec![prompt("abc", &[0]), generate(2, &[0])];
    for engine in [EngineKind::LlamaServer, EngineKind::LlamaCli] {
        let says = |program: &std::path::Path, model: &std::path::Path| {
            fail(place.place(), &job(engine, program, model, actions())).0
        };
        let missing = place.path().join("missing.gguf");
        let failure = says(&program, &missing);
        assert_eq!(failure.message, format!("opening the model: nothing is there, a GGUF file is needed: {missing:?}"));
        let failure = says(&program, &text);
        assert_eq!(
            failure.message,
            format!("opening the model: it begins with \"This\", a GGUF file is needed: {text:?}")
        );
        let nowhere = place.path().join("no-such-program");
        let failure = says(&nowhere, &model);
        assert_eq!(
            failure.message,
            format!("starting {}: nothing is there, a program is needed: {nowhere:?}", engine.name())
        );
        assert_eq!(
            failure.hints,
            ["give the place of the program: --program PATH, or `server: {program: PATH}` in an experiment"]
        );
        let failure = says(std::path::Path::new("/bin/true"), &model);
        assert!(failure.message.contains("its --help names no option -m"), "{failure:?}");
    }
    let (failure, told) = fail(place.place(), &job(EngineKind::LlamaServer, &program, &broken, actions()));
    let beginning = "waiting for the model to be loaded: the program ended with exit code 1; it said: ";
    assert!(failure.message.starts_with(beginning), "{failure:?}");
    assert!(failure.message.contains("error"), "{failure:?}");
    assert!(is_gone(told.pids()[0]));

    let mut joined = job(EngineKind::LlamaServer, &program, &model, actions());
    joined.server.url = Some("http://127.0.0.1:9".to_owned());
    let (failure, _) = fail(place.place(), &joined);
    assert!(failure.message.contains("reached no server"), "{failure:?}");
    assert!(failure.hints.iter().any(|hint| hint.contains("llama-server -m")), "{failure:?}");
}

#[test]
fn a_prompt_that_does_not_fit_is_refused_with_a_remedy() {
    let Some(program) = llama_program("a_prompt_that_does_not_fit_is_refused_with_a_remedy", "llama-server") else {
        return;
    };
    let place = Workplace::new();
    let model = place.model(MakeSpec::default());
    let long =
        job(EngineKind::LlamaServer, &program, &model, vec![prompt(&"abc ".repeat(600), &[0]), generate(2, &[0])]);
    let (failure, _) = fail(place.place(), &long);
    assert!(failure.message.contains("context size"), "{failure:?}");
    assert_eq!(failure.hints, ["ask for a longer context: --context-length N"]);
}

#[test]
fn a_port_that_was_taken_meanwhile_is_replaced_by_another() {
    let Some(program) = llama_program("a_port_that_was_taken_meanwhile_is_replaced_by_another", "llama-server") else {
        return;
    };
    let place = Workplace::new();
    let model = place.model(MakeSpec::default());
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let flag = place.path().join("was-here");
    // The first server gets a port that somebody has, as if it had been taken after it was found free.
    let unlucky = place.script(
        "llama-server",
        &format!(
            "case \"$1\" in --help|--version) exec {program:?} \"$@\";; esac\n\
             [ -e {flag:?} ] && exec {program:?} \"$@\"\n: >{flag:?}\nexec {program:?} \"$@\" --port {port}"
        ),
    );
    let asked = job(EngineKind::LlamaServer, &unlucky, &model, vec![prompt("abc", &[0]), generate(2, &[0])]);
    let told = llama::run(place.place(), &asked);
    assert_eq!(told.ids(0).len(), 2);
    assert!(place.log().contains("couldn't bind"), "{}", place.log());
    assert_eq!(told.pids().len(), 2, "both were told of");

    let mut always = asked;
    always.server.program = Some(program);
    always.server.arguments = vec!["--port".to_owned(), port.to_string()];
    let (failure, _) = fail(place.place(), &always);
    assert!(failure.message.contains("couldn't bind HTTP server socket"), "{failure:?}");
}

/// The driver that another test kills.
#[test]
#[ignore = "child process of no_server_outlives_a_driver_that_is_killed"]
fn drives_until_it_is_killed() {
    let job: Job = serde_json::from_str(&std::env::var("TEST_JOB").unwrap()).unwrap();
    let place = Workplace::new();
    let mut guarded = place.place();
    guarded.guard = llama::guard();
    let mut watcher = Watcher::watching(|events| {
        if events.iter().filter(|event| is_token(event)).count() == 1 {
            std::fs::write(std::env::var("TEST_PID_FILE").unwrap(), pids(events)[0].to_string()).unwrap();
        }
        false
    });
    let _ = ServerEngine::new(guarded).run(&job, &mut watcher);
}

#[test]
fn no_server_outlives_a_driver_that_is_killed() {
    let name = "no_server_outlives_a_driver_that_is_killed";
    if Command::new("setpriv").arg("--version").output().is_err() {
        return llama::skip(name, "setpriv, which stands in for the guard, is not installed (util-linux)");
    }
    for (engine, program) in [(EngineKind::LlamaServer, "llama-server"), (EngineKind::LlamaCli, "llama-completion")] {
        let Some(program) = llama_program(name, program) else { return };
        let place = Workplace::new();
        let model = place.model(MakeSpec::default());
        let pid_file = place.path().join("pid");
        let mut driver = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "drives_until_it_is_killed", "--ignored"])
            .env("TEST_JOB", serde_json::to_string(&long_job(engine, &program, &model)).unwrap())
            .env("TEST_PID_FILE", &pid_file)
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let pid: u32 = wait_for("the first token", || std::fs::read_to_string(&pid_file).ok()?.parse().ok());
        assert!(!is_gone(pid));
        driver.kill().unwrap();
        driver.wait().unwrap();
        // Whoever inherits orphans waits for them; until then they are zombies.
        wait_for("the end of the program", || has_ended(pid).then_some(()));
    }
}

fn has_ended(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')').next().and_then(|rest| rest.trim().chars().next()).is_none_or(|state| state == 'Z')
}
