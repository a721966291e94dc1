//! Which tensors are wanted, and which of them a model has.

use std::collections::HashMap;

use dwell_tensors::DType;
use serde::{Deserialize, Serialize};

use crate::CaptureError;
use crate::glob::{NameGlob, UnreadableGlob};
use crate::group::Group;
use crate::layers::Layers;
use crate::listed::{Length, ListedTensor};
use crate::node::NameParts;
use crate::slice::{Misfit, Slice};

/// Names that are told when none matches.
const MOST_CLOSE_NAMES: usize = 3;
/// How alike a name must be to be told, from 0 to 1.
const LEAST_LIKENESS: f64 = 0.7;

dwell_events::choices! {
    /// Which steps are captured.
    CapturedPhase {
        /// The prompt.
        Prompt = "prompt",
        /// Decoded tokens.
        Decode = "decode",
        /// Both.
        All = "all",
    }
}

/// What is wanted of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    /// Groups, and globs on names.
    pub tensors: Vec<String>,
    /// Of tensors that have a layer, these alone.
    pub layers: Option<Layers>,
    /// Which steps.
    pub phase: CapturedPhase,
    /// Every n-th step, from step 0 on.
    pub every: u64,
    /// What is taken of each tensor.
    pub slice: Slice,
}

/// A tensor that is captured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chosen {
    pub(crate) layer: Option<i32>,
    pub(crate) dtype: DType,
    pub(crate) rank: usize,
}

/// What a selection comes to on a model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    pub(crate) tensors: HashMap<String, Chosen>,
    /// Tensors that were named and cannot be stored.
    pub(crate) unstorable: Vec<String>,
}

/// A group or a glob.
enum Pattern {
    Group(Group),
    Glob(Box<NameGlob>),
}

impl Selection {
    /// Refuses what no model could satisfy.
    pub fn check(&self) -> Result<(), CaptureError> {
        if self.every == 0 {
            return Err(CaptureError::EveryIsZero);
        }
        self.patterns().map(|_| ())
    }

    /// Whether this step is captured.
    pub fn wants_step(&self, step: u64) -> bool {
        let is_phase = match self.phase {
            CapturedPhase::Prompt => step == 0,
            CapturedPhase::Decode => step > 0,
            CapturedPhase::All => true,
        };
        is_phase && step.is_multiple_of(self.every)
    }

    fn patterns(&self) -> Result<Vec<Pattern>, CaptureError> {
        if self.tensors.is_empty() {
            return Err(CaptureError::NothingWanted);
        }
        self.tensors.iter().map(|text| pattern(text)).collect()
    }

    /// Which of these tensors are captured.
    pub(crate) fn choose(&self, listed: &[ListedTensor]) -> Result<Choice, CaptureError> {
        let mut wanted: Vec<&ListedTensor> = Vec::new();
        for pattern in self.patterns()? {
            wanted.extend(pattern.matches(listed)?);
        }
        self.keep_layers(&mut wanted, listed)?;
        let mut choice = Choice::default();
        for tensor in &wanted {
            let Some(dtype) = tensor.dtype() else {
                choice.unstorable.push(tensor.name.clone());
                continue;
            };
            check_slice(&self.slice, tensor)?;
            let layer = tensor.layer.and_then(|layer| i32::try_from(layer).ok());
            let chosen = Chosen { layer, dtype, rank: tensor.shape.len() };
            choice.tensors.insert(tensor.name.clone(), chosen);
        }
        match wanted.first() {
            Some(tensor) if choice.tensors.is_empty() => {
                Err(CaptureError::Unstorable { name: tensor.name.clone(), type_name: tensor.type_name.clone() })
            }
            _ => Ok(choice),
        }
    }

    fn keep_layers(&self, wanted: &mut Vec<&ListedTensor>, listed: &[ListedTensor]) -> Result<(), CaptureError> {
        let Some(layers) = &self.layers else { return Ok(()) };
        let last = listed.iter().filter_map(|tensor| tensor.layer).max().unwrap_or(0);
        if let Some(layer) = layers.last().filter(|&layer| layer > last) {
            return Err(CaptureError::NoLayer { layer, last });
        }
        wanted.retain(|tensor| tensor.layer.is_none_or(|layer| layers.contains(layer)));
        if wanted.is_empty() { Err(CaptureError::NothingInLayers) } else { Ok(()) }
    }
}

fn pattern(text: &str) -> Result<Pattern, CaptureError> {
    if let Some(group) = Group::from_name(text) {
        return Ok(Pattern::Group(group));
    }
    if text.trim().is_empty() {
        return Err(UnreadableGlob { pattern: text.to_owned(), reason: "no letters".to_owned() }.into());
    }
    Ok(Pattern::Glob(Box::new(NameGlob::new(text)?)))
}

impl Pattern {
    fn matches<'t>(&self, listed: &'t [ListedTensor]) -> Result<Vec<&'t ListedTensor>, CaptureError> {
        let is_match = |tensor: &&ListedTensor| match self {
            Pattern::Group(group) => tensor.group == Some(*group),
            // Views that nobody named repeat what a named tensor holds; who wants them has to say so.
            Pattern::Glob(glob) => (!tensor.is_plain_view || glob.text().contains('(')) && glob.is_match(&tensor.name),
        };
        let found: Vec<_> = listed.iter().filter(is_match).collect();
        match self {
            _ if !found.is_empty() => Ok(found),
            Pattern::Group(group) => Err(CaptureError::NoGroup { group: *group }),
            Pattern::Glob(glob) => {
                let pattern = glob.text().to_owned();
                Err(CaptureError::NoMatch { close: close_names(&pattern, listed), pattern })
            }
        }
    }
}

/// Groups and names that look like what was asked for, best first.
fn close_names(text: &str, listed: &[ListedTensor]) -> Vec<String> {
    let plain = NameParts::of(text).base.trim_end_matches(['*', '-']);
    let bases = listed.iter().filter(|tensor| !tensor.is_plain_view).map(|tensor| {
        let parts = NameParts::of(&tensor.name);
        (parts.base, if parts.layer.is_some() { format!("{}-*", parts.base) } else { parts.base.to_owned() })
    });
    let groups = Group::NAMES.iter().map(|name| (*name, (*name).to_owned()));
    let likeness = |(base, name): (&str, String)| (strsim::jaro_winkler(plain, base), name);
    let mut close: Vec<(f64, String)> =
        groups.chain(bases).map(likeness).filter(|(likeness, _)| *likeness >= LEAST_LIKENESS).collect();
    close.sort_by(|one, other| other.0.total_cmp(&one.0).then_with(|| one.1.cmp(&other.1)));
    close.dedup_by(|one, other| one.1 == other.1);
    close.into_iter().take(MOST_CLOSE_NAMES).map(|(_, name)| name).collect()
}

fn check_slice(slice: &Slice, tensor: &ListedTensor) -> Result<(), CaptureError> {
    let misfit = |reason: String| CaptureError::SliceMisfit {
        name: tensor.name.clone(),
        shape: shape_text(&tensor.shape),
        reason,
    };
    for length_of in [Length::of_prompt, Length::of_one_token] {
        let shape: Vec<u64> = tensor.shape.iter().map(|&length| length_of(length)).collect();
        let taken = slice.of(&shape).map_err(|error| misfit(reason(&error)))?;
        let mut fixed = taken.iter().zip(&tensor.shape).enumerate();
        let nothing = |(_, (taken, length)): &(usize, (&crate::Taken, &Length))| {
            matches!(length, Length::Fixed(1..)) && taken.count == 0
        };
        if let Some((dimension, _)) = fixed.find(nothing) {
            return Err(misfit(format!("it takes nothing of dimension {dimension}")));
        }
    }
    Ok(())
}

fn reason(misfit: &Misfit) -> String {
    match misfit {
        Misfit::TooManyParts { parts, dimensions } => {
            format!("it has {parts} parts, the tensor {dimensions} dimensions")
        }
        Misfit::IndexOutside { index, dimension, length } => {
            format!("index {index} is outside dimension {dimension}, which can be as short as {length}")
        }
    }
}

/// A shape as text, such as `tokens, 576`.
pub fn shape_text(shape: &[Length]) -> String {
    let text = |length: &Length| match length {
        Length::Fixed(length) => length.to_string(),
        Length::Varying { .. } => "tokens".to_owned(),
    };
    shape.iter().map(text).collect::<Vec<_>>().join(", ")
}
