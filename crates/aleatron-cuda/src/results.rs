//! The destination of the results of a call, and their computation from the kernels' counts.

use aleatron_core::{Length, Quantity, memory};

use crate::buffers::{BufferSet, CountOptions, HEAD};
use crate::driver::{DeviceBuffer, Grid, View, kernels};
use crate::error::{Error, Limit, Result};
use crate::kernels::{Finish, FinishParams, ResultKind};
use crate::product::Product;
use crate::program::params::FinishStage;
use crate::size::size_u32;

/// Number of threads of a block of the finishing kernel.
const THREADS: u64 = 256;

/// The destination of the results of a call.
#[derive(Debug)]
pub(crate) enum Output<'a> {
    /// Counts, on the host.
    Counts(Vec<u64>),
    /// Device memory, samples by neurons.
    Card(CardResults<'a>),
}

/// Results in device memory.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CardResults<'a> {
    /// The memory.
    pub(crate) view: View<'a>,
    /// The form of the results.
    pub(crate) kind: ResultKind,
    /// The stage after the layer, for results of the kind [`ResultKind::Staged`].
    pub(crate) stage: Option<View<'a>>,
}

impl<'a> CardResults<'a> {
    /// Creates results that are counts.
    pub(crate) fn counts(view: View<'a>) -> Self {
        Self { view, kind: ResultKind::Counts, stage: None }
    }

    /// Returns the results from a byte on.
    pub(crate) fn from(self, byte: u64) -> Result<Self> {
        Ok(Self { view: self.view.from(byte)?, ..self })
    }

    /// Returns the address of the stage; 0 for none.
    pub(crate) fn stage(&self) -> Result<u64> {
        self.stage.map_or(Ok(0), |stage| stage.check(size_of::<FinishStage>() as u128))
    }
}

impl Output<'_> {
    /// Allocates the counts of a batch.
    pub(crate) fn counts(n_samples: usize, n_neurons: usize) -> Result<Self> {
        let n = n_samples as u128 * n_neurons as u128;
        Ok(Self::Counts(memory::with_capacity(n, Quantity::Counts)?))
    }

    pub(crate) fn into_counts(self) -> Vec<u64> {
        match self {
            Self::Counts(counts) => counts,
            Self::Card(_) => Vec::new(),
        }
    }
}

/// The computation of results from counts.
#[derive(Debug)]
pub(crate) struct Recipe {
    pub(crate) n_neurons: usize,
    pub(crate) length: Length,
    /// The constant of each neuron.
    pub(crate) base: Option<DeviceBuffer<u64>>,
    /// The bits of all products of each neuron, if they differ, otherwise of every neuron.
    pub(crate) totals: Option<DeviceBuffer<u64>>,
    pub(crate) total: u64,
    /// The factor of the counts, modulo 2^64.
    pub(crate) factor: u64,
    /// Whether the ones of each sample are subtracted.
    pub(crate) takes_row_ones: bool,
}

/// The counted part of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) first: bool,
    pub(crate) last: bool,
}

impl Turn {
    pub(crate) const ONLY: Self = Self { first: true, last: true };
}

/// Checks that values can be computed on the GPU, of neurons of at most `most_products` products:
/// their numerators must fit 63 bits.
pub(crate) fn check_values(most_products: usize, length: Length) -> Result<()> {
    let (actual, limit) = (most_products as u128 * length.bits() as u128, 1u128 << 62);
    if actual >= limit {
        return Err(Error::TooLarge { what: Limit::Products, actual, limit });
    }
    Ok(())
}

impl Recipe {
    /// Returns the recipe of a dense layer; `base` is present unless the product is AND.
    pub(crate) fn dense(
        n_neurons: usize,
        n_inputs: usize,
        length: Length,
        product: Product,
        base: Option<DeviceBuffer<u64>>,
    ) -> Self {
        let (factor, takes_row_ones) = match product {
            Product::And | Product::SignedAnd | Product::SplitAnd => (1, false),
            Product::Xnor => (2, true),
        };
        let total = (n_inputs as u64).wrapping_mul(length.bits() as u64);
        Self { n_neurons, length, base, totals: None, total, factor, takes_row_ones }
    }

    /// Returns the parameters of the results of `n_samples` samples, at `out`; findings about the
    /// values are written to `report`.
    pub(crate) fn finish(
        &self,
        set: &BufferSet,
        n_samples: usize,
        out: CardResults<'_>,
        report: View<'_>,
        turn: Turn,
    ) -> Result<Finish> {
        let row_ones = self.takes_row_ones.then(|| set.row_ones.view());
        self.finish_at(n_samples, out, report, set.state.view(), row_ones, turn)
    }

    /// Returns [`Self::finish`], with the memory it needs.
    pub(crate) fn finish_at(
        &self,
        n_samples: usize,
        out: CardResults<'_>,
        report: View<'_>,
        state: View<'_>,
        row_ones: Option<View<'_>>,
        turn: Turn,
    ) -> Result<Finish> {
        let neurons = 8 * self.n_neurons as u128;
        let optional = |buffer: &Option<DeviceBuffer<u64>>| match buffer {
            Some(buffer) => buffer.view().check(neurons),
            None => Ok(0),
        };
        Ok(Finish {
            base: if turn.first { optional(&self.base)? } else { 0 },
            row_ones: match row_ones {
                Some(ones) => ones.check(4 * n_samples as u128)?,
                None => 0,
            },
            totals: optional(&self.totals)?,
            total: self.total,
            factor: self.factor,
            length: self.length.bits() as u64,
            out: out.view.check(neurons * n_samples as u128)?,
            // Findings are reported once.
            report: if turn.last { report.check(8)? } else { 0 },
            state: state.check(16)?,
            stage: out.stage()?,
            n_neurons: size_u32(self.n_neurons, "number of neurons")?,
            n_samples: size_u32(n_samples, "number of samples")?,
            accumulate: (!turn.first).into(),
            kind: if turn.last { out.kind } else { ResultKind::Counts } as u32,
        })
    }

    /// Enqueues the computation of results, and their download if they are for the host.
    pub(crate) fn give(
        &self,
        set: &BufferSet,
        options: &CountOptions<'_>,
        n_samples: usize,
        card: Option<CardResults<'_>>,
        width: CountWidth,
        turn: Turn,
    ) -> Result<()> {
        let out = match card {
            Some(card) => card,
            None => CardResults::counts(set.results.view().from(8 * HEAD as u64)?),
        };
        let finish = self.finish(set, n_samples, out, set.results.view(), turn)?;
        let n = n_samples * self.n_neurons;
        let (element, kernel): (u64, _) = match width {
            CountWidth::Bits32 => (4, &kernels::FINISH_32),
            CountWidth::Signed32 => (4, &kernels::FINISH_SIGNED_32),
            CountWidth::Bits64 => (8, &kernels::FINISH_64),
        };
        let counted = set.counts.view().check(u128::from(element) * n as u128)?;
        let params = FinishParams { finish, counted };
        let grid = Grid::row((n as u64).div_ceil(THREADS))?;
        set.queue(options).launch(kernel, grid, 0, &params, (2 * element + 8) * n as u64)?;
        if self.takes_row_ones {
            set.row_ones.fill(0, &set.stream)?;
        }
        if turn.last && options.program.is_none() {
            let n = if card.is_some() { 0 } else { n };
            set.download.receive(0, HEAD + n, &set.results, 0, &set.stream)?;
        }
        Ok(())
    }
}

/// The width of the integers for counts of products.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CountWidth {
    Bits32,
    /// 32 bits in two's complement.
    Signed32,
    Bits64,
}
