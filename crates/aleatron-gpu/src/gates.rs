//! Gates on packed streams, and counts of their ones.
//!
//! Streams are uploaded and results are read back: for few streams a CPU is faster. These functions
//! are for large numbers of streams, and for the conformance suite.

use std::sync::Arc;

use aleatron_core::gates::Gate;
use aleatron_core::{Error as CoreError, Length, Quantity, StreamMatrix, memory};
use aleatron_device::{GpuContext, grid, size_u32};

use crate::error::Result;
use crate::kernels::{GateParams, OnesParams, StreamKernel};
use crate::partition::{StreamWords, blocks, gather, scatter};

/// Number of threads of a workgroup of `gates.wgsl`.
const THREADS: u64 = 256;

/// Number of words of a workgroup of `ones.wgsl`.
const SEGMENT_WORDS: usize = 8192;

/// The function of `gates.wgsl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Function {
    Gate(Gate),
    Not,
    Mux,
}

impl Function {
    /// Returns the constant of the shader.
    fn constant(self) -> u32 {
        match self {
            Self::Gate(Gate::And) => 0,
            Self::Gate(Gate::Or) => 1,
            Self::Gate(Gate::Xor) => 2,
            Self::Gate(Gate::Xnor) => 3,
            Self::Not => 4,
            Self::Mux => 5,
        }
    }
}

/// Applies a gate to two equally many streams of one length.
///
/// # Errors
/// Returns [`CoreError::Mismatch`] if numbers or lengths differ, and errors of the device.
pub fn gate(
    context: &Arc<GpuContext>,
    gate: Gate,
    a: &StreamMatrix,
    b: &StreamMatrix,
) -> Result<StreamMatrix> {
    apply(context, Function::Gate(gate), a, b, a)
}

/// Computes the complement of each stream.
///
/// # Errors
/// Returns errors of the device.
pub fn not(context: &Arc<GpuContext>, a: &StreamMatrix) -> Result<StreamMatrix> {
    apply(context, Function::Not, a, a, a)
}

/// Selects `a` where `select` is 1 and `b` where it is 0.
///
/// # Errors
/// Returns [`CoreError::Mismatch`] if numbers or lengths differ, and errors of the device.
pub fn mux(
    context: &Arc<GpuContext>,
    select: &StreamMatrix,
    a: &StreamMatrix,
    b: &StreamMatrix,
) -> Result<StreamMatrix> {
    apply(context, Function::Mux, a, b, select)
}

fn apply(
    context: &Arc<GpuContext>,
    function: Function,
    a: &StreamMatrix,
    b: &StreamMatrix,
    select: &StreamMatrix,
) -> Result<StreamMatrix> {
    same_shape(a, b)?;
    same_shape(a, select)?;
    let (rows, length) = (a.rows(), a.length());
    let stream = StreamWords::of(length);
    let row_words = stream.stored as usize;
    let mut words = StreamMatrix::zeros(rows, length)?.into_words();
    let pipeline =
        context.pipeline(&StreamKernel::Gate, &[("GATE", function.constant().into())])?;
    let mut packed = Vec::new();
    for block in blocks(rows, row_words, context)? {
        let mut upload = |matrix: &StreamMatrix| {
            gather(bytemuck::cast_slice(matrix.words()), row_words, &block, &mut packed);
            context.upload(&packed)
        };
        // Unused bindings take the first stream.
        let a_words = upload(a)?;
        let b_words = if function == Function::Not { None } else { Some(upload(b)?) };
        let chosen = if function == Function::Mux { Some(upload(select)?) } else { None };
        let result = context.buffer::<u32>(block.words())?;
        let views = [
            a_words.view(),
            b_words.as_ref().unwrap_or(&a_words).view(),
            chosen.as_ref().unwrap_or(&a_words).view(),
            result.view(),
        ];
        let params = GateParams {
            n_words: size_u32(block.words(), "number of words")?,
            row_stride: size_u32(block.cut.stride, "row stride")?,
            row_begin: size_u32(block.cut.begin, "row begin")?,
            full_words: stream.full,
            tail_mask: stream.tail_mask,
        };
        let workgroups =
            grid((block.words() as u64).div_ceil(THREADS), context.info().max_workgroups)?;
        let mut recorder = context.recorder(None)?;
        let bytes = 16 * block.words() as u64;
        recorder.dispatch(&context.bind(&pipeline, &views)?, &params, workgroups, bytes)?;
        let read = recorder.read::<u32>(result.view())?;
        recorder.submit()?;
        scatter(&read.wait()?, row_words, &block, bytemuck::cast_slice_mut(&mut words));
    }
    Ok(StreamMatrix::from_words(words, rows, length)?)
}

/// The operation of `ones.wgsl`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pair {
    Single,
    And,
    Xor,
}

impl Pair {
    /// Returns the constant of the shader.
    fn constant(self) -> u32 {
        match self {
            Self::Single => 0,
            Self::And => 1,
            Self::Xor => 2,
        }
    }
}

/// Counts the ones of each stream.
///
/// # Errors
/// Returns errors of the device.
pub fn popcount(context: &Arc<GpuContext>, a: &StreamMatrix) -> Result<Vec<u64>> {
    ones(context, Pair::Single, a, a)
}

/// Counts the ones that each two streams share.
///
/// # Errors
/// Returns [`CoreError::Mismatch`] if numbers or lengths differ, and errors of the device.
pub fn and_popcount(
    context: &Arc<GpuContext>,
    a: &StreamMatrix,
    b: &StreamMatrix,
) -> Result<Vec<u64>> {
    ones(context, Pair::And, a, b)
}

/// Counts the positions where each two streams differ.
///
/// # Errors
/// Returns [`CoreError::Mismatch`] if numbers or lengths differ, and errors of the device.
pub fn hamming_distance(
    context: &Arc<GpuContext>,
    a: &StreamMatrix,
    b: &StreamMatrix,
) -> Result<Vec<u64>> {
    ones(context, Pair::Xor, a, b)
}

fn ones(
    context: &Arc<GpuContext>,
    pair: Pair,
    a: &StreamMatrix,
    b: &StreamMatrix,
) -> Result<Vec<u64>> {
    same_shape(a, b)?;
    let row_words = StreamWords::of(a.length()).stored as usize;
    let mut counts: Vec<u64> = memory::zeros(a.rows() as u128, Quantity::Counts)?;
    let pipeline = context.pipeline(&StreamKernel::Ones, &[("PAIR", pair.constant().into())])?;
    let mut packed = Vec::new();
    for block in blocks(a.rows(), row_words, context)? {
        let mut upload = |matrix: &StreamMatrix| {
            gather(bytemuck::cast_slice(matrix.words()), row_words, &block, &mut packed);
            context.upload(&packed)
        };
        let a_words = upload(a)?;
        let b_words = if pair == Pair::Single { None } else { Some(upload(b)?) };
        // A cut of a row has at most 2^30 bits.
        let found = context.buffer::<u32>(block.n_rows)?;
        let views = [a_words.view(), b_words.as_ref().unwrap_or(&a_words).view(), found.view()];
        let n_segments = block.cut.stride.div_ceil(SEGMENT_WORDS);
        let params = OnesParams {
            n_rows: size_u32(block.n_rows, "number of rows")?,
            row_words: size_u32(block.cut.stride, "row words")?,
            n_segments: size_u32(n_segments, "number of segments")?,
        };
        let workgroups =
            grid(block.n_rows as u64 * n_segments as u64, context.info().max_workgroups)?;
        let mut recorder = context.recorder(None)?;
        recorder.clear(found.view())?;
        let bytes = 8 * block.words() as u64;
        recorder.dispatch(&context.bind(&pipeline, &views)?, &params, workgroups, bytes)?;
        let read = recorder.read::<u32>(found.view())?;
        recorder.submit()?;
        let rows = counts[block.first_row..].iter_mut().zip(read.wait()?);
        rows.for_each(|(count, found)| *count += u64::from(found));
    }
    Ok(counts)
}

fn same_shape(a: &StreamMatrix, b: &StreamMatrix) -> Result<()> {
    let bits = |length: Length| length.bits();
    let pairs = [
        (Quantity::Streams, a.rows(), b.rows()),
        (Quantity::Length, bits(a.length()), bits(b.length())),
    ];
    for (what, expected, actual) in pairs {
        if expected != actual {
            return Err(CoreError::Mismatch { what, expected, actual }.into());
        }
    }
    Ok(())
}
