//! Whether the collector `tensor_ops` works here: tried with a small model.

use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;

use dwell_events::engine::{Action, EngineEvent, EngineOptions, Job, KvType, TimeResolution};
use dwell_gguf::{MakePlan, MakeSpec, Overwrite, make};
use dwell_store::{RunDir, StoreError, new_run_id};

use crate::{BuildOptions, RunError, RunListener, RunRequest, build_run, record_run};

/// What a trial gave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorOpsProbe {
    /// Accesses that were recorded.
    pub accesses: u64,
}

/// Runs a small model for one token in a hidden folder of `folder`, and counts the accesses that come back. Nothing of
/// it is left.
pub fn probe_tensor_ops(folder: &Path) -> Result<TensorOpsProbe, RunError> {
    let place = folder.join(format!(".dwell-probe-{}", new_run_id()));
    let had_folder = folder.exists();
    let probe = run_small_model(&place);
    let _ = fs::remove_dir_all(&place);
    if !had_folder {
        let _ = fs::remove_dir(folder);
    }
    probe
}

fn run_small_model(place: &Path) -> Result<TensorOpsProbe, RunError> {
    let action = "making a folder for a trial";
    fs::create_dir_all(place).map_err(|error| StoreError::from_io(action, place, error))?;
    let model = place.join("small.gguf");
    let unmade = |reason: String| RunError::Engine {
        message: format!("making a small model failed: {reason}"),
        hints: Vec::new(),
    };
    let spec = MakeSpec { layers: 1, embedding: 64, feed_forward: 64, vocabulary: 300, ..MakeSpec::default() };
    let plan = MakePlan::new(spec).map_err(|error| unmade(error.to_string()))?;
    make(&plan, &model, Overwrite::Allow, &mut |_| {}).map_err(|error| unmade(error.to_string()))?;
    let run = RunDir::create(&place.join("results"), "small", "probe")?;
    record_run(&run, &request(&model), &AtomicBool::new(false), &mut Silent)?;
    let built = build_run(&run, &|options| options, &mut Silent)?;
    Ok(TensorOpsProbe { accesses: built.summary.accesses })
}

fn request(model: &Path) -> RunRequest {
    let options = EngineOptions {
        model: model.to_owned(),
        context_length: 256,
        threads: 1,
        batch_size: 64,
        micro_batch_size: 64,
        parallel: 1,
        kv_unified: false,
        kv_type_k: KvType::F16,
        kv_type_v: KvType::F16,
        flash_attention: true,
        mmap: true,
        repack: true,
        full_window_cache: false,
        context_shift: false,
        seed: 0,
        temperature: 0.0,
        chat_template: false,
        ignore_end: true,
        time_resolution: TimeResolution::Op,
    };
    let sequences = vec![0];
    let actions = vec![
        Action::Prompt { text: "a".to_owned(), sequences: sequences.clone(), fill_to_tokens: None },
        Action::Generate { max_tokens: 1, sequences },
    ];
    RunRequest {
        job: Job { options, actions },
        model_id: "small".to_owned(),
        is_traced: true,
        sample_interval_ms: None,
        baseline_ms: 0,
        sensor_interval_ms: 1000,
        command_line: Vec::new(),
        build: BuildOptions { draws_figures: false, ..BuildOptions::default() },
        experiment: None,
        fallbacks: Vec::new(),
        untraced: None,
    }
}

/// Nobody watches a trial.
struct Silent;

impl RunListener for Silent {
    fn engine_event(&mut self, _: &EngineEvent) {}

    fn building(&mut self, _: f64) {}
}
