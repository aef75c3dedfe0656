//! What tasks find: integers for each sample and errors for each piece, as lines of JSON.

use super::early::Look;
use super::outline::{FLOAT, Outline, PassKind, Purpose};
use crate::{Error, Result};
use aleatron_engine::stream::LayerStats;
use serde::{Deserialize, Serialize};

/// What a task found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Part {
    /// The pass, by its place in the outline.
    pub(super) pass: usize,
    /// The first piece.
    pub(super) first: usize,
    pub(super) pieces: Vec<Piece>,
    /// How the layers ran, where not as asked.
    pub(super) notes: Vec<String>,
}

/// What a pass found for one piece of the samples.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Piece {
    /// The class of each sample.
    pub(super) classes: Vec<usize>,
    /// How many margins the lead of each sample reaches.
    pub(super) reached: Vec<usize>,
    /// The errors of each layer's counts; none for a look.
    pub(super) layers: Vec<LayerStats>,
    /// The cycles of the last layer until the outcome was certain, over all samples, and the samples that stopped before the end.
    pub(super) certain: Option<[u64; 2]>,
    /// Features that were clipped.
    pub(super) clipped: u64,
    /// The time the streams took.
    pub(super) seconds: f64,
}

/// More than any count of a piece; their sum over all pieces is no overflow.
const MOST: u64 = 1 << 40;

impl Piece {
    /// Everything that is summed up.
    fn numbers(&self) -> impl Iterator<Item = u64> {
        let of_layers = self.layers.iter().flat_map(|layer| [layer.counts, layer.saturated]);
        of_layers.chain(self.certain.into_iter().flatten()).chain([self.clipped])
    }

    pub(super) fn looks(&self) -> impl Iterator<Item = Look> {
        self.classes.iter().zip(&self.reached).map(|(&class, &reached)| Look { class, reached })
    }
}

impl Part {
    /// The part as a line of JSON.
    ///
    /// # Errors
    /// What the writer of JSON says; not for a part of a task that was run.
    pub fn to_line(&self) -> Result<String> {
        to_line(self)
    }

    /// Reads what [`Self::to_line`] wrote. Whether it can be true is checked by who takes it, with the outline.
    ///
    /// # Errors
    /// [`Error::Format`] with what is wrong.
    pub fn from_line(line: &str) -> Result<Self> {
        serde_json::from_str(line).map_err(|error| fault(error.to_string()))
    }

    /// Checks that the numbers can be those of a part of an outline.
    pub(super) fn validate(&self, outline: &Outline) -> Result<()> {
        let Some(pass) = outline.passes.get(self.pass) else {
            return Err(fault(format!("pass {} of {}", self.pass, outline.passes.len())));
        };
        let end = self.first.checked_add(self.pieces.len());
        if end.is_none_or(|end| end > outline.n_pieces()) {
            return Err(fault(format!("pieces from {} on are past the end", self.first)));
        }
        let margins = outline.evaluation.plan.margins.len();
        let n_layers = outline.evaluation.network.layers.len();
        for (piece, found) in (self.first..).zip(&self.pieces) {
            let n = outline.labels_of(piece).len();
            let has_layers =
                matches!(pass.kind, PassKind::Streams { purpose: Purpose::Cell, .. }).then_some(n_layers);
            for (what, is_right) in [
                ("classes", found.classes.len() == n && found.classes.iter().all(|&c| c < outline.n_classes)),
                (
                    "leads",
                    self.pass == FLOAT && found.reached.is_empty()
                        || found.reached.len() == n && found.reached.iter().all(|&r| r <= margins),
                ),
                ("layers", found.layers.len() == has_layers.unwrap_or(0)),
                ("seconds", (0.0..f64::INFINITY).contains(&found.seconds)),
                ("counts", found.numbers().all(|number| number < MOST)),
            ] {
                if !is_right {
                    let pass = self.pass;
                    return Err(fault(format!("pass {pass}, piece {piece}: its {what} cannot be true")));
                }
            }
        }
        Ok(())
    }
}

/// Reads a file of lines: an outline, then parts. A last line without an end, left by a program that was killed, is ignored.
///
/// # Errors
/// [`Error::Format`] with the line that cannot be read.
pub fn read_lines(text: &str) -> Result<(Outline, Vec<Part>)> {
    let at_line = |line: usize, error: Error| fault(format!("line {line}: {error}"));
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut lines = whole.lines().zip(1..);
    let Some((head, _)) = lines.next() else { return Err(fault("it is empty".to_owned())) };
    let outline = Outline::from_line(head).map_err(|error| at_line(1, error))?;
    let parts = lines.map(|(line, number)| {
        let part = Part::from_line(line).and_then(|part| part.validate(&outline).map(|()| part));
        part.map_err(|error| at_line(number, error))
    });
    let parts = parts.collect::<Result<_>>()?;
    Ok((outline, parts))
}

pub(super) fn to_line(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| fault(error.to_string()))
}

fn fault(reason: String) -> Error {
    Error::Format { file: "part of an evaluation".to_owned(), reason }
}
