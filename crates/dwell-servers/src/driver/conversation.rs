//! What was said so far, by sequence; and which jobs can be said to a server at all.

use dwell_events::engine::{Action, EngineOptions, Job};
use dwell_events::server::ServerOptions;

use crate::ServerError;
use crate::client::{Asked, Speaker, Turn};

/// Everything that was said in one sequence.
#[derive(Clone, Debug, Default)]
pub(super) struct Conversation {
    text: String,
    turns: Vec<Turn>,
}

impl Conversation {
    /// A conversation of one message, which is this text where it is sent as such.
    pub(super) fn of_prompt(message: &str, text: &str) -> Self {
        let mut conversation = Self::default();
        conversation.add_prompt(message, text);
        conversation
    }

    /// Goes on with a message of the user, which is this text where it is sent as such.
    pub(super) fn add_prompt(&mut self, message: &str, text: &str) {
        self.text.push_str(text);
        self.add_turn(Speaker::User, message);
    }

    /// Goes on with what the model said.
    pub(super) fn add_answer(&mut self, text: &str) {
        self.text.push_str(text);
        self.add_turn(Speaker::Model, text);
    }

    fn add_turn(&mut self, speaker: Speaker, text: &str) {
        match self.turns.last_mut().filter(|turn| turn.speaker == speaker) {
            Some(turn) => turn.text.push_str(text),
            None => self.turns.push(Turn { speaker, text: text.to_owned() }),
        }
    }

    /// A request for what comes next.
    pub(super) fn ask<'a>(
        &'a self,
        sequence: i32,
        max_tokens: u32,
        options: &'a EngineOptions,
        server: &'a ServerOptions,
    ) -> Asked<'a> {
        Asked { text: &self.text, turns: &self.turns, sequence, max_tokens, options, server }
    }
}

/// Refuses what only the embedded engine can do, before anything is started.
pub(super) fn check_actions(job: &Job) -> Result<(), ServerError> {
    let refused =
        |index: usize, found, needed| ServerError::Action { action: index + 1, found, engine: job.engine, needed };
    let mut prompted: Vec<i32> = Vec::new();
    let mut waiting: Vec<(usize, i32)> = Vec::new();
    for (index, action) in job.actions.iter().enumerate() {
        match action {
            Action::Prompt { sequences, .. } => {
                prompted.extend(sequences);
                waiting.extend(sequences.iter().map(|&sequence| (index, sequence)));
            }
            Action::Generate { sequences, .. } => {
                if sequences.is_empty() || sequences.iter().any(|sequence| !prompted.contains(sequence)) {
                    return Err(refused(index, "it generates for a sequence without a prompt", "needs one"));
                }
                waiting.retain(|(_, sequence)| !sequences.contains(sequence));
            }
            // All of it: the next prompt begins a new conversation.
            Action::Remove { sequence, from: 0, to: ..0 } => prompted.retain(|prompted| prompted != sequence),
            Action::Remove { .. } => return Err(refused(index, "it removes positions", "has no request for that")),
            Action::Copy { .. } => return Err(refused(index, "it copies a sequence", "has no request for that")),
            Action::Shift { .. } => return Err(refused(index, "it shifts positions", "has no request for that")),
        }
    }
    match waiting.first() {
        Some(&(index, _)) => {
            Err(refused(index, "no generation follows its prompt", "processes prompts to answer them"))
        }
        None if job.actions.is_empty() => Err(refused(0, "there is nothing to do", "needs a prompt and a generation")),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use dwell_events::engine::EngineKind;

    use super::*;

    fn job(actions: Vec<Action>) -> Job {
        let options = EngineOptions::new("m.gguf".into());
        Job { engine: EngineKind::LlamaServer, server: ServerOptions::default(), options, actions }
    }

    fn prompt(sequences: &[i32]) -> Action {
        Action::Prompt { text: "a".to_owned(), sequences: sequences.to_vec(), fill_to_tokens: None }
    }

    fn generate(sequences: &[i32]) -> Action {
        Action::Generate { max_tokens: 1, sequences: sequences.to_vec() }
    }

    #[test]
    fn a_conversation_is_one_text_and_alternating_turns() {
        let mut conversation = Conversation::of_prompt("Hi", "Hi");
        conversation.add_prompt(" you", " you");
        conversation.add_answer("!");
        conversation.add_prompt(" Go on", "[ Go on]");
        let (options, server) = (EngineOptions::new("m".into()), ServerOptions::default());
        let asked = conversation.ask(3, 7, &options, &server);
        assert_eq!((asked.text, asked.sequence, asked.max_tokens), ("Hi you![ Go on]", 3, 7));
        let turns: Vec<(&str, &str)> = asked.turns.iter().map(|turn| (turn.speaker.role(), &*turn.text)).collect();
        assert_eq!(turns, [("user", "Hi you"), ("assistant", "!"), ("user", " Go on")]);
    }

    #[test]
    fn what_a_server_cannot_do_is_refused_with_its_number() {
        let message = |actions| check_actions(&job(actions)).map_err(|error| error.to_string());
        assert_eq!(message(vec![prompt(&[0, 1]), generate(&[0]), generate(&[0, 1])]), Ok(()));
        let remove = Action::Remove { sequence: 0, from: 0, to: 1 };
        assert_eq!(
            message(vec![prompt(&[0]), generate(&[0]), remove]),
            Err("checking action 3: it removes positions; llama_server has no request for that".to_owned())
        );
        assert_eq!(
            message(vec![prompt(&[0]), generate(&[1])]),
            Err("checking action 2: it generates for a sequence without a prompt; llama_server needs one".to_owned())
        );
        assert_eq!(
            message(vec![prompt(&[0]), generate(&[0]), prompt(&[0])]),
            Err("checking action 3: no generation follows its prompt; llama_server processes prompts to answer them"
                .to_owned())
        );
        assert!(message(Vec::new()).is_err());
    }
}
