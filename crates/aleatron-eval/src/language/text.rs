//! The text of an evaluation: tokens and their bytes.

use crate::{Error, Result};
use aleatron_core::{Quantity, memory};
use aleatron_transformer::{Config, ModelSource, Tokenizer};
use std::ops::Range;
use std::path::Path;

/// The most tokens for calibration if no number is given.
const CALIBRATION_LIMIT: usize = 4096;

/// Bytes of memory that a tokenizer takes for each byte of text, about.
const BYTES_PER_BYTE: u128 = 64;

/// A text as tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LanguageText {
    name: String,
    tokens: Vec<u32>,
    /// The byte at which each token ends.
    ends: Vec<usize>,
}

/// The tokens of a text for calibration and for evaluation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitText {
    /// The tokens for calibration, the first of the text.
    pub calibration: Range<usize>,
    /// The tokens for evaluation, after those for calibration. The first is read and not predicted.
    pub evaluation: Range<usize>,
}

impl SplitText {
    /// Returns the number of tokens that are predicted.
    #[must_use]
    pub fn predicted(&self) -> usize {
        self.evaluation.len().saturating_sub(1)
    }
}

impl LanguageText {
    /// Encodes a text; `name` is for messages and reports.
    ///
    /// # Errors
    /// [`Error::Language`] for an empty text, [`Error::Transformer`] if the tokenizer fails.
    pub fn new(name: impl Into<String>, text: &str, tokenizer: &Tokenizer) -> Result<Self> {
        let name = name.into();
        if text.is_empty() {
            let remedy = "give a text of at least three tokens".to_owned();
            return Err(Error::Language {
                what: name,
                value: "the text is empty".to_owned(),
                remedy,
            });
        }
        memory::check(text.len() as u128 * BYTES_PER_BYTE, Quantity::Value)?;
        let (tokens, ends) = tokenizer.encode_with_ends(text)?;
        Ok(Self { name, tokens, ends })
    }

    /// Encodes the text in the program, which its model was not trained on.
    ///
    /// # Errors
    /// [`Error::Transformer`] if the tokenizer fails.
    pub fn embedded(tokenizer: &Tokenizer) -> Result<Self> {
        Self::new("held-out text of bytes", ModelSource::EMBEDDED_TEXT, tokenizer)
    }

    /// Reads and encodes a file of text in UTF-8.
    ///
    /// # Errors
    /// [`Error::File`] if it cannot be read, [`Error::Language`] if it is not a regular file or not
    /// UTF-8, and as [`Self::new`].
    pub fn read(path: &Path, tokenizer: &Tokenizer) -> Result<Self> {
        let name = path.display().to_string();
        let data = std::fs::metadata(path).map_err(|error| Error::file(path, error))?;
        if !data.is_file() {
            let value = "not a regular file".to_owned();
            return Err(Error::Language {
                what: name,
                value,
                remedy: "give a text file".to_owned(),
            });
        }
        memory::check(u128::from(data.len()) * BYTES_PER_BYTE, Quantity::Value)?;
        let bytes = std::fs::read(path).map_err(|error| Error::file(path, error))?;
        let text = std::str::from_utf8(&bytes).map_err(|error| Error::Language {
            what: name.clone(),
            value: format!("not UTF-8 at byte {}", error.valid_up_to()),
            remedy: "convert it to UTF-8, for example with iconv -t UTF-8".to_owned(),
        })?;
        Self::new(name, text, tokenizer)
    }

    /// Returns the name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the tokens.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Returns the first tokens for calibration: as many as given, otherwise a tenth of the text
    /// and at most 4096; and the tokens after them for evaluation, of which at most `predicted`
    /// are predicted.
    ///
    /// # Errors
    /// [`Error::Language`] for a text that is too short, [`Error::LanguageOption`] for a number of
    /// 0.
    pub fn split(&self, calibration: Option<usize>, predicted: Option<usize>) -> Result<SplitText> {
        let n = self.tokens.len();
        let first = calibration.unwrap_or_else(|| (n / 10).clamp(1, CALIBRATION_LIMIT));
        if first == 0 || predicted == Some(0) {
            let what = if first == 0 { "calibration tokens" } else { "predicted tokens" };
            let remedy = "give a number from 1 on".to_owned();
            return Err(Error::LanguageOption { option: what, value: "0".to_owned(), remedy });
        }
        if n < first.saturating_add(2) {
            let tokens = crate::plural(n, "token");
            let value = format!("{tokens}, of which {first} would be for calibration");
            let remedy = "give a longer text: calibration needs one token at least, evaluation one to read and one to predict";
            return Err(Error::Language {
                what: self.name.clone(),
                value,
                remedy: remedy.to_owned(),
            });
        }
        let end = predicted
            .map_or(n, |predicted| n.min(first.saturating_add(predicted).saturating_add(1)));
        Ok(SplitText { calibration: 0..first, evaluation: first..end })
    }

    /// Checks that a model has all tokens of the text.
    ///
    /// # Errors
    /// [`Error::Language`] with the first token that is not in the vocabulary.
    pub fn check_vocabulary(&self, model: &Config) -> Result<()> {
        let is_unknown =
            |token: u32| usize::try_from(token).map_or(true, |token| token >= model.vocabulary);
        match self.tokens.iter().position(|&token| is_unknown(token)) {
            None => Ok(()),
            Some(index) => Err(Error::Language {
                what: self.name.clone(),
                value: format!(
                    "token {index} is {}, but the model has a vocabulary of {}",
                    self.tokens[index], model.vocabulary
                ),
                remedy: "use the tokenizer.json of this model".to_owned(),
            }),
        }
    }

    /// Returns the number of bytes of text of the predicted tokens of an evaluation.
    #[must_use]
    pub fn predicted_bytes(&self, split: &SplitText) -> usize {
        let end = |token: Option<usize>| {
            token.and_then(|token| self.ends.get(token)).copied().unwrap_or(0)
        };
        end(split.evaluation.end.checked_sub(1)).saturating_sub(end(Some(split.evaluation.start)))
    }
}
