//! Text and tokens, by a model's `tokenizer.json`.

use std::path::Path;

use crate::error::{Error, Result};

/// A model's tokenizer.
#[derive(Debug, Clone)]
pub struct Tokenizer(Box<tokenizers::Tokenizer>);

impl Tokenizer {
    /// Reads `tokenizer.json`.
    ///
    /// # Errors
    /// An error with the fault of the file.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = aleatron_core::file::read(path)
            .map_err(|source| Error::File { path: path.to_owned(), source })?;
        Self::parse(&bytes, path)
    }

    /// Reads the bytes of a `tokenizer.json`; the path is for messages.
    pub(crate) fn parse(bytes: &[u8], path: &Path) -> Result<Self> {
        let tokenizer =
            tokenizers::Tokenizer::from_bytes(bytes).map_err(|e| Error::format(path, e))?;
        Ok(Self(Box::new(tokenizer)))
    }

    /// Encodes a text, with the tokens that begin a text.
    ///
    /// # Errors
    /// [`Error::Tokenizer`].
    pub fn encode(&self, text: &str) -> Result<Vec<u32>> {
        let encoding =
            self.0.encode(text, true).map_err(|e| Error::Tokenizer { reason: e.to_string() })?;
        Ok(encoding.get_ids().to_vec())
    }

    /// Encodes a text, with the tokens that begin a text; returns the tokens and the byte of the
    /// text at which each ends.
    ///
    /// # Errors
    /// [`Error::Tokenizer`].
    pub fn encode_with_ends(&self, text: &str) -> Result<(Vec<u32>, Vec<usize>)> {
        let encoding =
            self.0.encode(text, true).map_err(|e| Error::Tokenizer { reason: e.to_string() })?;
        // A token without text, such as the one that begins a text, ends where the token before it
        // ends.
        let ends = encoding.get_offsets().iter().scan(0, |last, &(_, end)| {
            *last = end.max(*last).min(text.len());
            Some(*last)
        });
        Ok((encoding.get_ids().to_vec(), ends.collect()))
    }

    /// Decodes tokens, without special ones.
    ///
    /// # Errors
    /// [`Error::Tokenizer`].
    pub fn decode(&self, tokens: &[u32]) -> Result<String> {
        self.0.decode(tokens, true).map_err(|e| Error::Tokenizer { reason: e.to_string() })
    }
}

/// A streaming decoder: a character may consist of several tokens, and a space may depend on the
/// previous token.
#[derive(Debug, Default)]
pub struct TextStream {
    tokens: Vec<u32>,
    /// The text of the tokens from `start` on that was already returned.
    shown: String,
    start: usize,
}

impl TextStream {
    /// Appends a token and returns the new text; it is empty while a character is incomplete.
    ///
    /// # Errors
    /// [`Error::Tokenizer`].
    pub fn push(&mut self, tokenizer: &Tokenizer, token: u32) -> Result<String> {
        self.tokens.push(token);
        let text = tokenizer.decode(&self.tokens[self.start..])?;
        // Bytes that may be the beginning of a character are shown as this one.
        let complete = text.trim_end_matches(char::REPLACEMENT_CHARACTER);
        let new = self.show(complete);
        // Decoding all tokens each time would take quadratic time; the last few tokens give the
        // same text.
        if complete.len() == text.len() && self.tokens.len() - self.start > 64 {
            self.start = self.tokens.len() - 8;
            self.shown = tokenizer.decode(&self.tokens[self.start..])?;
        }
        Ok(new)
    }

    /// Returns the rest of the text: bytes of an incomplete character.
    ///
    /// # Errors
    /// [`Error::Tokenizer`].
    pub fn finish(&mut self, tokenizer: &Tokenizer) -> Result<String> {
        let text = tokenizer.decode(&self.tokens[self.start..])?;
        Ok(self.show(&text))
    }

    /// Returns the part of a text that was not returned yet.
    fn show(&mut self, text: &str) -> String {
        let pairs = text.chars().zip(self.shown.chars());
        let known: usize = pairs.take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
        self.shown = text.to_owned();
        text[known..].to_owned()
    }
}
