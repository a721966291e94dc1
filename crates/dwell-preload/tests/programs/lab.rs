//! Compiles libraries and programs, runs them, and reads what was recorded.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use dwell_records::{Graph, Hello, Kind, Refusal, Step, split_frame};
use dwell_ring::Consumer;

/// A folder with what was compiled.
pub struct Lab {
    dir: tempfile::TempDir,
}

impl Lab {
    pub fn new() -> Self {
        Self { dir: tempfile::tempdir().unwrap() }
    }

    /// Where a file of the lab is.
    pub fn at(&self, name: &str) -> String {
        self.dir.path().join(name).to_str().unwrap().to_owned()
    }

    fn compile(&self, output: &str, sources: &[&str], more: &[&str]) -> String {
        let output = self.at(output);
        let mut cc = Command::new("cc");
        cc.args(["-O2", "-o", &output]);
        cc.args(sources.iter().map(|name| format!("{}/tests/programs/c/{name}", env!("CARGO_MANIFEST_DIR"))));
        cc.args(more).arg(format!("-Wl,-rpath,{}", self.dir.path().display())).arg("-ldl");
        let said = cc.output().unwrap();
        assert!(said.status.success(), "{}", String::from_utf8_lossy(&said.stderr));
        output
    }

    /// A library that has its ggml inside and offers all of it to others.
    pub fn whole_library(&self, name: &str, more: &[&str]) -> String {
        self.library(&format!("lib{name}.so"), name, &["ggml.c", "user.c"], more)
    }

    /// A library that needs another one, its ggml.
    pub fn library_with_ggml(&self, name: &str, more: &[&str]) -> String {
        let ggml = format!("libggml-{name}.so");
        let ggml = self.library(&ggml, name, &["ggml.c"], &[more, &[&format!("-Wl,-soname,{ggml}")]].concat());
        self.library(&format!("lib{name}.so"), name, &["user.c"], &[more, &[&ggml]].concat())
    }

    fn library(&self, file: &str, name: &str, sources: &[&str], more: &[&str]) -> String {
        let name = format!("-DNAME={name}");
        self.compile(file, sources, &[&["-shared", "-fPIC", "-Wl,-z,now", &name], more].concat())
    }

    /// A program of one source.
    pub fn program(&self, source: &str, more: &[&str]) -> String {
        self.compile(source.trim_end_matches(".c"), &[source], &[&["-Wl,--no-as-needed"], more].concat())
    }

    /// Runs a program without the recorder, with it, and recorded. All three have to do the same.
    pub fn run(&self, program: &str, words: &[&str]) -> Recorded {
        let run = |prepare: &dyn Fn(&mut Command)| {
            let mut command = Command::new(program);
            command.args(words).env_remove("LD_PRELOAD").env_remove("DWELL_RING_DIR");
            prepare(&mut command);
            command.output().unwrap()
        };
        let plain = run(&|_| ());
        let said = |output: &Output| format!("{:?} {}", output.status, String::from_utf8_lossy(&output.stdout));
        let preloaded = run(&|command| {
            command.env("LD_PRELOAD", preload_library());
        });
        assert_eq!(said(&preloaded), said(&plain), "with the recorder: {}", String::from_utf8_lossy(&preloaded.stderr));
        let rings = self.dir.path().join("rings");
        let _ = std::fs::remove_dir_all(&rings);
        std::fs::create_dir(&rings).unwrap();
        let recorded = run(&|command| {
            command.env("LD_PRELOAD", preload_library()).env("DWELL_RING_DIR", &rings);
            command.env("DWELL_OBSERVER_PID", std::process::id().to_string());
        });
        assert_eq!(said(&recorded), said(&plain), "recorded: {}", String::from_utf8_lossy(&recorded.stderr));
        assert!(plain.status.success(), "{}", said(&plain));
        Recorded { said: String::from_utf8(plain.stdout).unwrap(), processes: processes_in(&rings) }
    }
}

/// The library, beside the folder of the test programs. It is no dependency of theirs, so cargo does not build it for them.
fn preload_library() -> PathBuf {
    let test_program = std::env::current_exe().unwrap();
    let library = test_program.parent().and_then(Path::parent).unwrap().join("libdwell_preload.so");
    assert!(library.exists(), "build it first with `cargo build --release -p dwell-preload`: {library:?}");
    library
}

/// What came of a program.
pub struct Recorded {
    /// What it printed.
    pub said: String,
    /// What was recorded of its processes, in the order in which they began.
    pub processes: Vec<Process>,
}

/// What was recorded of a process.
#[derive(Debug)]
pub struct Process {
    pub hello: Hello,
    /// The tensor of each graph that was computed.
    pub steps: Vec<String>,
    /// Numbers of the graphs that were stored.
    pub graph_ids: Vec<u32>,
    /// How often ggml called back in each step.
    pub calls: Vec<u32>,
    pub refusals: Vec<String>,
}

impl Recorded {
    /// The only process.
    pub fn process(&self) -> &Process {
        let [process] = &self.processes[..] else { panic!("one process, not {:?}", self.processes) };
        process
    }
}

fn processes_in(rings: &Path) -> Vec<Process> {
    let paths = std::fs::read_dir(rings).unwrap().map(|entry| entry.unwrap().path());
    let mut processes: Vec<Process> = paths.map(|path| process_of(&path)).collect();
    processes.sort_by_key(|process| process.hello.fork.map(|fork| fork.time_ns));
    processes
}

fn process_of(ring: &Path) -> Process {
    let mut bytes = Vec::new();
    Consumer::open(ring).unwrap().peek(0, &mut bytes);
    let (mut hellos, mut names) = (Vec::new(), HashMap::new());
    let (mut steps, mut calls, mut graph_ids, mut refusals) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    let mut rest = &bytes[..];
    while let Some((frame, after)) = split_frame(rest).unwrap() {
        match Kind::from_number(frame.kind).unwrap() {
            Kind::Hello => hellos.push(Hello::decode(frame.payload).unwrap()),
            Kind::Graph => {
                let graph = Graph::decode(frame.payload).unwrap();
                graph_ids.push(graph.id);
                names.insert(graph.id, graph.tensors[0].name.clone());
            }
            Kind::Step => {
                let step = Step::decode(frame.payload).unwrap();
                steps.push(names[&step.graph].clone());
                calls.push(step.nodes_done);
            }
            Kind::Refusal => refusals.push(Refusal::decode(frame.payload).unwrap().reason),
            _ => {}
        }
        rest = after;
    }
    assert_eq!(hellos.len(), 1, "one hello, whatever number of libraries");
    Process { hello: hellos.remove(0), steps, graph_ids, calls, refusals }
}
