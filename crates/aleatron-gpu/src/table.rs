//! Layers whose streams share sequences, counted from tables instead of bits; see [`aleatron_core::generator`].
//!
//! With one pair of sequences for all, the table of all products lies on the device and a count is one lookup per weight.
//! With one pair per input, the device first makes a row of that table for each sample and input.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use aleatron_core::generator::{CountTable, Pairing, PrefixCounts, Sequence, Sharing};
use aleatron_core::{DenseShape, Error as CoreError, Polarity, Quantity};
use bytemuck::{Pod, Zeroable};

use crate::adapter::Capabilities;
use crate::buffer::{GpuBuffer, Memory};
use crate::context::GpuContext;
use crate::error::{Error, Limit, Result};
use crate::pipeline::{Access, Kernel, grid};

/// Neurons of one workgroup of `table_count.wgsl`.
const NEURONS: u32 = 32;

/// The kernels of this file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TableKernel {
    /// Makes rows.
    Rows,
    /// Adds up entries of rows.
    Count,
}

impl TableKernel {
    /// Every kernel.
    pub const ALL: [Self; 2] = [Self::Rows, Self::Count];
}

impl Kernel for TableKernel {
    fn name(self) -> &'static str {
        match self {
            Self::Rows => "table rows",
            Self::Count => "table count",
        }
    }

    fn source(self, _: Capabilities) -> Cow<'static, str> {
        match self {
            Self::Rows => include_str!("shaders/table_rows.wgsl"),
            Self::Count => include_str!("shaders/table_count.wgsl"),
        }
        .into()
    }

    fn bindings(self) -> &'static [Access] {
        use Access::{Read, ReadWrite};
        match self {
            Self::Rows => &[Read, Read, Read, Read, ReadWrite],
            Self::Count => &[Read, Read, Read, ReadWrite],
        }
    }

    fn immediate_bytes(self) -> u32 {
        let bytes = match self {
            Self::Rows => size_of::<RowsParams>(),
            Self::Count => size_of::<CountParams>(),
        };
        bytes as u32
    }
}

/// Parameters of `table_rows.wgsl`, where each is explained.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct RowsParams {
    n_inputs: u32,
    n_rows: u32,
    length: u32,
    row_len: u32,
}

/// Parameters of `table_count.wgsl`, where each is explained.
#[repr(C)]
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
struct CountParams {
    n_inputs: u32,
    n_neurons: u32,
    n_groups: u32,
    n_samples: u32,
    row_len: u32,
    first: u32,
    stride: u32,
}

/// A dense layer with shared sequences on a device.
#[derive(Debug)]
pub struct GpuTabled {
    context: Arc<GpuContext>,
    shape: DenseShape,
    input_one: u64,
    row_len: usize,
    rows: Rows,
    /// Thresholds by input and neuron, for as many neurons as a binding holds.
    blocks: Vec<(Range<usize>, GpuBuffer<u32>)>,
}

#[derive(Debug)]
enum Rows {
    OneForAll(GpuBuffer<u32>),
    OnePerInput { inputs: GpuBuffer<u32>, weights: GpuBuffer<u32>, weight_ones: GpuBuffer<u32> },
}

impl GpuTabled {
    /// The layer of `shape` with weights of the given thresholds, row-major by neuron.
    ///
    /// # Errors
    /// [`CoreError::Mismatch`] for the number of weights, [`CoreError::OutOfRange`] with the index of a threshold past
    /// `2^W`, [`CoreError::TooLarge`] for a sequence too wide for a table or one more than the generator has, and for
    /// [`Sharing::OnePerStream`], which only bits can count; [`Error::TooLarge`] where a part passes a binding, or what the
    /// device reports.
    pub fn new(
        context: &Arc<GpuContext>,
        shape: DenseShape,
        pairing: &Pairing,
        thresholds: &[u64],
    ) -> Result<Self> {
        let (n, m) = (shape.n_inputs(), shape.n_neurons());
        if thresholds.len() != shape.n_weights() {
            let (expected, actual) = (shape.n_weights(), thresholds.len());
            return Err(CoreError::Mismatch { what: Quantity::Weights, expected, actual }.into());
        }
        check_thresholds(thresholds, pairing.weights.width().one(), Quantity::Weight)?;
        let row_len = pairing.weights.width().one() as usize + 1;
        let rows = match pairing.sharing {
            Sharing::OneForAll => {
                let (x, w) = (&pairing.inputs, &pairing.weights);
                let table = CountTable::new(x, w, shape.length(), shape.polarity())?;
                let all: Vec<u32> =
                    (0..=x.width().one()).flat_map(|input| table.row(input)).copied().collect();
                check_binding(context, all.len())?;
                Rows::OneForAll(context.upload(&all)?)
            }
            Sharing::OnePerInput => Self::sequences(context, &shape, pairing)?,
            Sharing::OnePerStream => {
                let (actual, limit) = (shape.n_weights() as u128, n as u128);
                return Err(CoreError::TooLarge { what: Quantity::Sequence, actual, limit }.into());
            }
        };
        check_binding(context, n)?;
        let per_block = (context.max_binding_bytes() as usize / (4 * n)).clamp(1, m);
        let mut blocks = Vec::new();
        for start in (0..m).step_by(per_block) {
            let neurons = start..(start + per_block).min(m);
            let by_input = (0..n).flat_map(|i| neurons.clone().map(move |j| thresholds[j * n + i] as u32));
            blocks.push((neurons.clone(), context.upload(&by_input.collect::<Vec<_>>())?));
        }
        let (context, input_one) = (Arc::clone(context), pairing.inputs.width().one());
        Ok(Self { context, shape, input_one, row_len, rows, blocks })
    }

    /// The integers of one pair per input.
    fn sequences(context: &Arc<GpuContext>, shape: &DenseShape, pairing: &Pairing) -> Result<Rows> {
        let (n, length) = (shape.n_inputs(), shape.length());
        check_binding(context, n.saturating_mul(length.bits()))?;
        let (mut inputs, mut weights, mut weight_ones) = (Vec::new(), Vec::new(), Vec::new());
        for input in 0..n {
            let (x, w) = (pairing.input(input)?, pairing.weight(0, input, n)?);
            // The row of the stream of ones is the ones of the weight streams.
            let prefixes = PrefixCounts::new(&x, &w, length, Polarity::Unipolar)?;
            prefixes.append_row(x.width().one(), &mut weight_ones);
            let values = |sequence: &Sequence| sequence.values().take(length.bits());
            inputs.extend(values(&x));
            weights.extend(values(&w));
        }
        check_binding(context, weight_ones.len())?;
        Ok(Rows::OnePerInput {
            inputs: context.upload(&inputs)?,
            weights: context.upload(&weights)?,
            weight_ones: context.upload(&weight_ones)?,
        })
    }

    /// The shape of the layer.
    #[must_use]
    pub fn shape(&self) -> &DenseShape {
        &self.shape
    }

    /// The device.
    #[must_use]
    pub fn context(&self) -> &Arc<GpuContext> {
        &self.context
    }

    /// The counts for inputs of the given thresholds, `[sample][neuron]`: equal, without the bits, to those of the streams that
    /// the layer's pairing encodes.
    ///
    /// # Errors
    /// [`CoreError::Ragged`] where the inputs are not whole samples, [`CoreError::OutOfRange`] with the index of a
    /// threshold past `2^W`, or what the device reports.
    pub fn counts(&self, inputs: &[u64]) -> Result<Vec<u64>> {
        let n_samples = self.shape.samples_in(inputs.len())?;
        check_thresholds(inputs, self.input_one, Quantity::Value)?;
        let n = self.shape.n_inputs();
        let mut counts = Vec::with_capacity(n_samples.saturating_mul(self.shape.n_neurons()));
        for piece in inputs.chunks(self.piece()? * n) {
            let thresholds: Vec<u32> = piece.iter().map(|&t| t as u32).collect();
            let words = self.count_piece(&thresholds)?;
            counts.extend(words.iter().map(|&[low, high]| u64::from(low) | u64::from(high) << 32));
        }
        Ok(counts)
    }

    /// The samples whose thresholds, rows and counts each fit a binding.
    fn piece(&self) -> Result<usize> {
        let (n, m) = (self.shape.n_inputs(), self.shape.n_neurons());
        let own_rows = match self.rows {
            Rows::OneForAll(_) => 0,
            Rows::OnePerInput { .. } => n.saturating_mul(self.row_len),
        };
        let words = n.max(own_rows).max(m.saturating_mul(2));
        check_binding(&self.context, words)?;
        Ok(self.context.max_binding_bytes() as usize / (4 * words))
    }

    fn count_piece(&self, thresholds: &[u32]) -> Result<Vec<[u32; 2]>> {
        let (context, shape) = (&self.context, &self.shape);
        let (n, m) = (shape.n_inputs(), shape.n_neurons());
        let n_samples = thresholds.len() / n;
        let limit = context.info().max_workgroups;
        let inputs = context.upload(thresholds)?;
        let counts = context.buffer::<[u32; 2]>(n_samples * m, Memory::Device)?;
        let mut recorder = context.recorder(None)?;
        let made;
        let (rows, own_rows) = match &self.rows {
            Rows::OneForAll(table) => (table, 0),
            Rows::OnePerInput { inputs: x, weights: w, weight_ones } => {
                made = context.buffer::<u32>(thresholds.len() * self.row_len, Memory::Device)?;
                recorder.clear(made.view()?)?;
                let xnor = u32::from(shape.polarity() == Polarity::Bipolar);
                let pipeline = context.pipeline(TableKernel::Rows, &[("XNOR", xnor)])?;
                let views = [x.view()?, w.view()?, weight_ones.view()?, inputs.view()?, made.view()?];
                let params = RowsParams {
                    n_inputs: n as u32,
                    n_rows: thresholds.len() as u32,
                    length: shape.length().bits() as u32,
                    row_len: self.row_len as u32,
                };
                let bytes = 8 * (thresholds.len() * (shape.length().bits() + self.row_len)) as u64;
                let workgroups = grid(thresholds.len() as u64, limit)?;
                recorder.dispatch(&context.bind(&pipeline, &views)?, &params, workgroups, bytes)?;
                (&made, 1)
            }
        };
        let pipeline = context.pipeline(TableKernel::Count, &[("OWN_ROWS", own_rows)])?;
        for (neurons, weights) in &self.blocks {
            let views = [rows.view()?, inputs.view()?, weights.view()?, counts.view()?];
            let n_groups = (neurons.len() as u32).div_ceil(NEURONS);
            let params = CountParams {
                n_inputs: n as u32,
                n_neurons: neurons.len() as u32,
                n_groups,
                n_samples: n_samples as u32,
                row_len: self.row_len as u32,
                first: neurons.start as u32,
                stride: m as u32,
            };
            let workgroups = grid(u64::from(n_groups) * n_samples as u64, limit)?;
            let bytes = 8 * (n_samples * n * neurons.len()) as u64;
            recorder.dispatch(&context.bind(&pipeline, &views)?, &params, workgroups, bytes)?;
        }
        recorder.submit()?;
        counts.read()
    }
}

/// Checks that so many 32-bit words fit a binding.
fn check_binding(context: &GpuContext, words: usize) -> Result<()> {
    let (actual, limit) = (words as u128 * 4, context.max_binding_bytes());
    if actual > limit.into() {
        return Err(Error::TooLarge { what: Limit::BindingBytes, actual, limit });
    }
    Ok(())
}

fn check_thresholds(thresholds: &[u64], one: u64, what: Quantity) -> Result<()> {
    match thresholds.iter().position(|&t| t > one) {
        None => Ok(()),
        Some(index) => {
            let value = thresholds[index] as f64;
            Err(CoreError::OutOfRange { what, index, value, low: 0.0, high: one as f64 }.into())
        }
    }
}
