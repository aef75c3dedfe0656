//! Texts to train on: files of text and of JSON lines become sequences of tokens with labels.

use std::path::Path;

use aleatron_transformer::{Config, Tokenizer};
use serde::Deserialize;

use crate::{Error, Result};

/// The label of a token that the loss ignores, as in torch and Hugging Face transformers.
pub const IGNORED: i64 = -100;

/// Tokens with their labels.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sequence {
    tokens: Vec<u32>,
    labels: Vec<i64>,
}

impl Sequence {
    /// Creates a sequence. Each label belongs to the token at the same index, and is predicted by
    /// the model from the tokens before it; tokens with the label [`IGNORED`] are only read. The
    /// first label is never predicted.
    ///
    /// # Errors
    /// [`Error::Option`] for lists of different lengths, and for sequences without a label to
    /// predict.
    pub fn new(tokens: Vec<u32>, labels: Vec<i64>) -> Result<Self> {
        if tokens.len() != labels.len() {
            let value = format!("{} for {} tokens", labels.len(), tokens.len());
            return Err(Error::option(
                "number of labels",
                value,
                "there must be one for each token",
            ));
        }
        let own = Self { tokens, labels };
        if own.targets() == 0 {
            let expected =
                "a sequence needs two tokens, and a label other than -100 after the first";
            return Err(Error::option("number of labels to predict", 0, expected));
        }
        Ok(own)
    }

    /// Creates a sequence whose labels are its tokens.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub fn of_tokens(tokens: Vec<u32>) -> Result<Self> {
        let labels = tokens.iter().map(|&token| i64::from(token)).collect();
        Self::new(tokens, labels)
    }

    /// Returns the tokens.
    #[must_use]
    pub fn tokens(&self) -> &[u32] {
        &self.tokens
    }

    /// Returns the labels, one for each token.
    #[must_use]
    pub fn labels(&self) -> &[i64] {
        &self.labels
    }

    /// Returns the number of labels that are predicted.
    #[must_use]
    pub fn targets(&self) -> usize {
        self.labels.iter().skip(1).filter(|&&label| label != IGNORED).count()
    }

    /// Checks that a model has these tokens, labels and positions.
    pub(super) fn check(&self, config: &Config) -> Result<()> {
        let limit = config.vocabulary as u64;
        let unknown_token =
            self.tokens.iter().map(|&token| i64::from(token)).find(|&t| t as u64 >= limit);
        let is_known =
            |label: i64| label == IGNORED || u64::try_from(label).is_ok_and(|label| label < limit);
        let unknown_label = self.labels.iter().copied().find(|&label| !is_known(label));
        let found = [("token", unknown_token), ("label", unknown_label)];
        if let Some((what, value)) =
            found.into_iter().find_map(|(what, value)| Some((what, value?)))
        {
            let value = format!("{value} for a vocabulary of {limit}");
            return Err(Error::option(
                what,
                value,
                "use the tokens of this model, and -100 for ignored labels",
            ));
        }
        if self.tokens.len() > config.max_positions {
            let value = format!(
                "{} for {} positions of the model",
                self.tokens.len(),
                config.max_positions
            );
            return Err(Error::option(
                "length of a sequence",
                value,
                "cut sequences to fewer tokens",
            ));
        }
        Ok(())
    }
}

/// The sequences of a file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Corpus {
    /// The sequences.
    pub sequences: Vec<Sequence>,
    /// The number of sequences whose end was cut off because they were too long.
    pub truncated: usize,
}

/// Conversion of files to sequences.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    /// The model.
    pub config: &'a Config,
    /// The tokenizer; without one, files must hold tokens.
    pub tokenizer: Option<&'a Tokenizer>,
    /// The largest number of tokens of a sequence, at least 2.
    pub length: usize,
}

/// One line of a JSON Lines file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    text: Option<String>,
    prompt: Option<String>,
    completion: Option<String>,
    tokens: Option<Vec<u32>>,
    labels: Option<Vec<i64>>,
}

impl Reader<'_> {
    /// Reads a file: `.jsonl` as JSON lines, everything else as one text.
    ///
    /// | line | sequence |
    /// |---|---|
    /// | `{"text": …}` | the text and the model's end token |
    /// | `{"prompt": …, "completion": …}` | both and the end token; labels of the prompt are ignored |
    /// | `{"tokens": […], "labels": […]}` | the tokens as they are; without labels, the tokens are the labels |
    ///
    /// One text is cut into sequences of the given length, without end tokens. Longer lines are
    /// truncated.
    ///
    /// # Errors
    /// [`Error::File`] with the line for a file that cannot be read or a line that is not a
    /// sequence, [`Error::Option`] for a length out of range.
    pub fn read(&self, path: &Path) -> Result<Corpus> {
        let limit = self.config.max_positions;
        if !(2..=limit).contains(&self.length) {
            let expected = "it must be at least 2 and at most the positions of the model";
            return Err(Error::option(
                "length of sequences",
                format!("{} of {limit}", self.length),
                expected,
            ));
        }
        let fault = |reason: String| Error::File { path: path.to_owned(), reason };
        let data = std::fs::metadata(path).map_err(|error| fault(error.to_string()))?;
        if !data.is_file() {
            return Err(fault("not a regular file; give a .txt or .jsonl file".to_owned()));
        }
        let text = std::fs::read_to_string(path).map_err(|error| fault(error.to_string()))?;
        let is_lines =
            path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("jsonl"));
        let corpus = match is_lines {
            true => self
                .lines(&text)
                .map_err(|(line, reason)| fault(format!("line {line}: {reason}")))?,
            false => self.blocks(&text).map_err(|error| fault(error.to_string()))?,
        };
        match corpus.sequences.is_empty() {
            true => Err(fault("no sequence of at least two tokens".to_owned())),
            false => Ok(corpus),
        }
    }

    fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let tokenizer = self.tokenizer.ok_or(aleatron_transformer::Error::NoTokenizer)?;
        Ok(tokenizer.encode(text)?)
    }

    /// Divides one text into sequences; a remainder of one token is dropped.
    fn blocks(&self, text: &str) -> Result<Corpus> {
        let tokens = self.encode(text)?;
        let whole = tokens.chunks(self.length).filter(|block| block.len() > 1);
        let sequences = whole.map(|block| self.checked(Sequence::of_tokens(block.to_vec())?));
        Ok(Corpus { sequences: sequences.collect::<Result<_>>()?, truncated: 0 })
    }

    fn lines(&self, text: &str) -> std::result::Result<Corpus, (usize, String)> {
        let mut corpus = Corpus::default();
        for (index, line) in text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            let fault = |error: &dyn std::fmt::Display| (index + 1, error.to_string());
            let line: Line = serde_json::from_str(line).map_err(|error| fault(&error))?;
            let (mut tokens, mut labels) = self.line(line).map_err(|error| fault(&error))?;
            if tokens.len() > self.length && labels.len() == tokens.len() {
                corpus.truncated += 1;
                tokens.truncate(self.length);
                labels.truncate(self.length);
            }
            let sequence =
                Sequence::new(tokens, labels).and_then(|sequence| self.checked(sequence));
            corpus.sequences.push(sequence.map_err(|error| fault(&error))?);
        }
        Ok(corpus)
    }

    fn checked(&self, sequence: Sequence) -> Result<Sequence> {
        sequence.check(self.config)?;
        Ok(sequence)
    }

    /// Returns the tokens and labels of a line.
    fn line(&self, line: Line) -> Result<(Vec<u32>, Vec<i64>)> {
        let labelled = |tokens: Vec<u32>, ignored: usize| {
            let label =
                |(i, &token): (usize, &u32)| if i < ignored { IGNORED } else { i64::from(token) };
            let labels = tokens.iter().enumerate().map(label).collect();
            (tokens, labels)
        };
        Ok(match line {
            Line {
                text: Some(text),
                prompt: None,
                completion: None,
                tokens: None,
                labels: None,
            } => labelled(self.ended(self.encode(&text)?), 0),
            Line {
                text: None,
                prompt: Some(prompt),
                completion: Some(rest),
                tokens: None,
                labels: None,
            } => {
                let start = self.encode(&prompt)?;
                let whole = self.ended(self.encode(&(prompt + &rest))?);
                // The last token of the prompt may continue into the completion; then it belongs to
                // the completion.
                let common = start.iter().zip(&whole).take_while(|(a, b)| a == b).count();
                labelled(whole, common)
            }
            Line { text: None, prompt: None, completion: None, tokens: Some(tokens), labels } => {
                match labels {
                    Some(labels) => (tokens, labels),
                    None => labelled(tokens, 0),
                }
            }
            _ => {
                let expected = "give \"text\", \"prompt\" and \"completion\", or \"tokens\" with optional \"labels\"";
                return Err(Error::option("combination of fields", "not supported", expected));
            }
        })
    }

    /// Appends the end token, if the model has one and the tokenizer has not added it.
    fn ended(&self, mut tokens: Vec<u32>) -> Vec<u32> {
        if let Some(&end) = self.config.end_tokens.first()
            && tokens.last() != Some(&end)
        {
            tokens.push(end);
        }
        tokens
    }
}
