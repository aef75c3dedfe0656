//! The interface of the forward pass, the same on every device.

use crate::config::Config;
use crate::error::{Error, Result};
use crate::lora::Adapter;
use crate::products::{LinearId, LinearProducts, unsupported};
use crate::sampling::Sampling;
use std::sync::Arc;

/// A sequence whose keys and values a pass caches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct SequenceId(pub(crate) usize);

/// An adapter loaded into a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AdapterId(pub(crate) usize);

/// Tokens to append to a sequence.
#[derive(Debug, Clone, Copy)]
pub struct Segment<'a> {
    /// The sequence.
    pub sequence: SequenceId,
    /// The tokens, at least one.
    pub tokens: &'a [u32],
}

/// The logits that a call returns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Logits {
    /// The logits after every token.
    All,
    /// The logits after the last token of each segment.
    Last,
}

/// A transformer's layers on a device, with a cache of keys and values for each sequence.
pub trait ForwardPass: std::fmt::Debug + Send {
    /// Returns the configuration of the model.
    fn config(&self) -> &Config;

    /// Returns the name of the device.
    fn device(&self) -> String;

    /// Opens an empty sequence.
    ///
    /// # Errors
    /// [`Error::Cache`] if the cache cannot grow.
    fn open(&mut self) -> Result<SequenceId>;

    /// Closes a sequence. Closing one that is not open does nothing.
    fn close(&mut self, sequence: SequenceId);

    /// Creates a sequence with the tokens of another.
    ///
    /// # Errors
    /// [`Error::NoSequence`], or [`Error::Cache`] if the cache cannot grow.
    fn fork(&mut self, sequence: SequenceId) -> Result<SequenceId>;

    /// Truncates a sequence to its first `keep` positions. This ends its series of steps, as
    /// [`Self::close`] and [`Self::use_adapter`] do.
    ///
    /// # Errors
    /// [`Error::NoSequence`], or [`Error::Truncation`] if the sequence has fewer.
    fn truncate(&mut self, sequence: SequenceId, keep: usize) -> Result<()>;

    /// Returns the number of positions of a sequence.
    ///
    /// # Errors
    /// [`Error::NoSequence`].
    fn len(&self, sequence: SequenceId) -> Result<usize>;

    /// Loads an adapter.
    ///
    /// # Errors
    /// An error of the device.
    fn load_adapter(&mut self, adapter: &Adapter) -> Result<AdapterId>;

    /// Uses an adapter, or none, for tokens appended to a sequence from now on.
    ///
    /// # Errors
    /// [`Error::NoSequence`] or [`Error::NoAdapter`].
    fn use_adapter(&mut self, sequence: SequenceId, adapter: Option<AdapterId>) -> Result<()>;

    /// Appends tokens to sequences and returns logits, vocabulary by vocabulary.
    ///
    /// # Errors
    /// [`Error::Token`], [`Error::TooLong`], [`Error::NoSequence`] and similar errors, before
    /// anything is changed; or an error of the device.
    fn forward(&mut self, segments: &[Segment<'_>], logits: Logits) -> Result<Vec<f32>>;

    /// Appends tokens to sequences and chooses the token that follows each. The token is not
    /// appended: [`Self::submit_step`] does that.
    ///
    /// # Errors
    /// As [`Self::forward`], [`Error::Sampling`], [`Error::NotFinite`].
    fn prefill(&mut self, segments: &[Segment<'_>], sampling: &Sampling) -> Result<Vec<u32>>;

    /// Appends to each sequence of the last prefill or step the token chosen for it and chooses the
    /// next, without waiting for it: [`Self::take_step`] does.
    ///
    /// # Errors
    /// As [`Self::prefill`].
    fn submit_step(&mut self) -> Result<()>;

    /// Returns the tokens of the oldest step not yet taken, in the order of the prefill's segments.
    ///
    /// # Errors
    /// As [`Self::prefill`].
    fn take_step(&mut self) -> Result<Vec<u32>>;

    /// Returns a counter that changes with every call of [`Self::prefill`] and [`Self::forward`],
    /// and whenever a series of steps ends: steps can continue the last prefill only.
    fn epoch(&self) -> u64;

    /// Returns the recommended number of steps to submit ahead of the one that is taken.
    fn look_ahead(&self) -> usize;

    /// Sets an executor or observer of the linear products of all calls from now on; `None` removes
    /// it.
    ///
    /// # Errors
    /// [`Error::NoLinearProducts`] on a GPU.
    fn set_linear_products(&mut self, _: Option<Arc<dyn LinearProducts>>) -> Result<()> {
        Err(unsupported(self.device()))
    }

    /// Sets the number of a sequence that executors of linear products receive; a new sequence has
    /// 0, a fork that of its original.
    ///
    /// # Errors
    /// [`Error::NoSequence`], or [`Error::NoLinearProducts`] on a GPU.
    fn set_sequence_number(&mut self, _: SequenceId, _: u64) -> Result<()> {
        Err(unsupported(self.device()))
    }

    /// Returns the matrix of a linear product as the pass uses it, in 32-bit floats, one row per
    /// output.
    ///
    /// # Errors
    /// [`Error::NoLinearProducts`] on a GPU, [`Error::UnknownProduct`],
    /// [`aleatron_core::Error::Memory`].
    fn linear_weights(&self, _: LinearId) -> Result<Vec<f32>> {
        Err(unsupported(self.device()))
    }

    /// Returns the size in bytes of the weights that every step reads.
    fn weight_bytes(&self) -> u64;

    /// Times the kernels of all calls from now on.
    ///
    /// # Errors
    /// An error of the device; none without kernels to time.
    fn start_profile(&mut self) -> Result<()>;

    /// Ends the profile and returns a table of the kernels timed since [`Self::start_profile`].
    ///
    /// # Errors
    /// An error of the device.
    fn finish_profile(&mut self) -> Result<String>;
}

/// The sequences of a pass: which are open, how long they are, and the adapter each uses.
#[derive(Debug, Default)]
pub(crate) struct Sequences {
    slots: Vec<Option<Sequence>>,
    n_adapters: usize,
}

#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Sequence {
    pub(crate) len: usize,
    pub(crate) adapter: Option<AdapterId>,
    /// The number that executors of linear products receive.
    pub(crate) number: u64,
}

impl Sequences {
    /// Returns the first free slot, which may be one past the existing slots.
    pub(crate) fn free_slot(&self) -> usize {
        self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len())
    }

    pub(crate) fn occupy(&mut self, slot: usize, sequence: Sequence) -> SequenceId {
        if slot >= self.slots.len() {
            self.slots.resize(slot + 1, None);
        }
        self.slots[slot] = Some(sequence);
        SequenceId(slot)
    }

    pub(crate) fn close(&mut self, id: SequenceId) {
        if let Some(slot) = self.slots.get_mut(id.0) {
            *slot = None;
        }
    }

    pub(crate) fn get(&self, id: SequenceId) -> Result<Sequence> {
        self.slots.get(id.0).copied().flatten().ok_or(Error::NoSequence { sequence: id.0 })
    }

    pub(crate) fn get_mut(&mut self, id: SequenceId) -> Result<&mut Sequence> {
        self.slots
            .get_mut(id.0)
            .and_then(Option::as_mut)
            .ok_or(Error::NoSequence { sequence: id.0 })
    }

    pub(crate) fn truncate(&mut self, id: SequenceId, keep: usize) -> Result<()> {
        let sequence = self.get_mut(id)?;
        if keep > sequence.len {
            return Err(Error::Truncation { sequence: id.0, len: sequence.len, keep });
        }
        sequence.len = keep;
        Ok(())
    }

    pub(crate) fn add_adapter(&mut self) -> AdapterId {
        self.n_adapters += 1;
        AdapterId(self.n_adapters - 1)
    }

    pub(crate) fn use_adapter(&mut self, id: SequenceId, adapter: Option<AdapterId>) -> Result<()> {
        if let Some(unknown) = adapter.filter(|adapter| adapter.0 >= self.n_adapters) {
            return Err(Error::NoAdapter { adapter: unknown.0 });
        }
        self.get_mut(id)?.adapter = adapter;
        Ok(())
    }

    /// Checks the arguments of a call before anything is changed.
    pub(crate) fn check(&self, config: &Config, segments: &[Segment<'_>]) -> Result<()> {
        if segments.is_empty() {
            return Err(Error::NoTokens);
        }
        let mut index = 0;
        for (i, segment) in segments.iter().enumerate() {
            let len = self.get(segment.sequence)?.len;
            if segments[..i].iter().any(|earlier| earlier.sequence == segment.sequence) {
                return Err(Error::RepeatedSequence { sequence: segment.sequence.0 });
            }
            if segment.tokens.is_empty() {
                return Err(Error::NoTokens);
            }
            let positions = len.saturating_add(segment.tokens.len());
            if positions > config.max_positions {
                return Err(Error::TooLong { positions, limit: config.max_positions });
            }
            let vocabulary = config.vocabulary;
            for &value in segment.tokens {
                if value as usize >= vocabulary {
                    return Err(Error::Token { index, value, vocabulary });
                }
                index += 1;
            }
        }
        Ok(())
    }
}

/// Returns the next capacity of a cache in positions; it grows in large steps.
pub(crate) fn grown(positions: usize, config: &Config) -> usize {
    positions.next_power_of_two().max(256).min(config.max_positions)
}
