//! What cannot be done is said, with what to do, and leaves nothing.

use std::fs;

use crate::common::text_of;
use crate::lab::Lab;

/// Captures with arguments that must be refused; returns what was said.
fn refused(lab: &Lab, arguments: &[&str]) -> String {
    let output = lab.command("refused", &[&["--max-tokens", "2"], arguments].concat()).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text_of(&output));
    assert!(!lab.path("refused").exists(), "{arguments:?} left a file");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn what_cannot_be_chosen_is_refused_with_a_hint() {
    let lab = Lab::new();
    let cases: [(&[&str], &str, &str); 13] = [
        (&["--tensors", "l_out-["], "reading the pattern \"l_out-[\"", "hint: `*` stands for any letters"),
        (&["--tensors", "residul"], "\"residul\"", "hint: --tensors 'residual'"),
        (&["--tensors", "fn_out-*"], "\"fn_out-*\"", "hint: --tensors 'ffn_out-*'"),
        (&["--layers", "1-7"], "choosing layers found 7", "hint: --layers 0-2"),
        (&["--layers", "2-1"], "2-1 goes backwards", "hint: numbers and ranges"),
        (&["--tensors", "l_out-0", "--layers", "1"], "none in the chosen layers", "hint: leave --layers out"),
        (&["--every", "0"], "every is 0", "hint: --every 1"),
        (&["--slice", ":, :, 0"], "it has 3 parts, the tensor 2 dimensions", "hint: see the shapes with --list"),
        (&["--slice", ":, 64"], "index 64 is outside dimension 1", "hint: see the shapes"),
        (&["--slice", "2"], "index 2 is outside dimension 0", "hint: see the shapes"),
        (&["--slice", ":, 100:"], "takes nothing of dimension 1", "hint: see the shapes"),
        (&["--codec", "zip"], "\"zip\"", "hint: lossless"),
        (&["--prompt", ""], "found no text", "hint: give a text with --prompt"),
    ];
    for (arguments, message, hint) in cases {
        let said = refused(&lab, arguments);
        assert!(said.lines().any(|line| line.starts_with("error: ") && line.contains(message)), "{said}");
        assert!(said.lines().any(|line| line.starts_with(hint)), "{arguments:?}: {said}");
    }
}

#[test]
fn what_is_there_is_not_replaced_unless_that_is_asked_for() {
    let lab = Lab::new();
    let first = lab.capture("a", &["--max-tokens", "2"]);
    let bytes = fs::read(&first.path).unwrap();
    let again = lab.command("a", &["--max-tokens", "2"]).output().unwrap();
    assert_eq!(again.status.code(), Some(2), "{}", text_of(&again));
    assert!(text_of(&again).contains("hint: replace it with --force"), "{}", text_of(&again));
    assert_eq!(fs::read(&first.path).unwrap(), bytes);
    let replaced = lab.capture("a", &["--max-tokens", "3", "--force"]);
    assert_eq!(replaced.tokens.len(), 3);
}

#[test]
fn a_prompt_that_is_too_long_leaves_nothing() {
    let lab = Lab::new();
    let said = refused(&lab, &["--prompt", &"word ".repeat(1024)]);
    assert!(said.contains("positions are needed"), "{said}");
    assert!(said.contains("hint: use a larger --context-length"), "{said}");
    assert!(!said.contains("recover"), "{said}");
}

#[test]
fn a_capture_that_comes_to_nothing_replaces_nothing() {
    let lab = Lab::new();
    let first = lab.capture("a", &["--max-tokens", "2"]);
    let bytes = fs::read(&first.path).unwrap();
    let refused = lab.command("a", &["--force", "--prompt", &"word ".repeat(1024)]).output().unwrap();
    assert_eq!(refused.status.code(), Some(2), "{}", text_of(&refused));
    assert!(fs::read(&first.path).unwrap() == bytes);
    assert!(!lab.path("a.earlier").exists());
}

#[test]
fn only_files_are_written_and_never_the_model() {
    let lab = Lab::new();
    let (folder, model) = (lab.path("a"), fs::read(&lab.model).unwrap());
    fs::create_dir(&folder).unwrap();
    for force in [&[][..], &["--force"]] {
        let output = lab.command("a", force).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
        assert!(text_of(&output).contains("found no regular file"), "{}", text_of(&output));
    }
    fs::remove_dir(&folder).unwrap();
    fs::write(&folder, "something else").unwrap();
    let output = lab.command("a", &[]).output().unwrap();
    assert!(text_of(&output).contains("exists already"), "{}", text_of(&output));
    fs::remove_file(&folder).unwrap();
    fs::hard_link(&lab.model, &folder).unwrap();
    let output = lab.command("a", &["--force"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    assert!(text_of(&output).contains("it is the model's file"), "{}", text_of(&output));
    assert!(fs::read(&lab.model).unwrap() == model);
}

#[test]
fn a_folder_that_is_not_there_is_told() {
    let lab = Lab::new();
    let output = lab.command("nowhere/a", &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(text_of(&output).contains("hint: mkdir -p "), "{}", text_of(&output));
}

#[test]
fn a_finished_capture_has_nothing_to_resume() {
    let lab = Lab::new();
    let first = lab.capture("a", &["--max-tokens", "2"]);
    let bytes = fs::read(&first.path).unwrap();
    fs::write(lab.path("a.ckpt.json"), "of a capture that was killed between its end and this").unwrap();
    let output = lab.command("a", &["--max-tokens", "2", "--resume"]).output().unwrap();
    assert!(!lab.path("a.ckpt.json").exists());
    assert!(output.status.success(), "{}", text_of(&output));
    assert!(text_of(&output).contains("nothing to resume"));
    assert_eq!(fs::read(&first.path).unwrap(), bytes);
}

#[test]
fn tokens_of_something_else_are_not_replaced() {
    let lab = Lab::new();
    fs::write(lab.path("a_tokens.json"), "precious").unwrap();
    let output = lab.command("a.tensors", &[]).output().unwrap();
    assert_eq!(output.status.code(), Some(2), "{}", text_of(&output));
    assert!(
        text_of(&output).contains("exists already") && text_of(&output).contains("--force"),
        "{}",
        text_of(&output)
    );
    assert_eq!(fs::read_to_string(lab.path("a_tokens.json")).unwrap(), "precious");
    assert!(!lab.path("a.tensors").exists());
}
