//! A layer on a GPU, of any kind.

use std::fmt;
use std::sync::Arc;

use aleatron_core::backend::{
    Batch, CountMethod, DeviceArray, DeviceBatch, DeviceElement, InputOrder, Inputs, PrepareOptions,
};
use aleatron_core::program::InputSign;
use aleatron_core::{Cancel, Encoding, InputSource, LayerSpec, SampleSeed, Topology, Weights};

use crate::buffers::{BufferSet, BufferSets, CountOptions, SetSizes};
use crate::conv::{CudaConv, runs_in_one_launch};
use crate::dense::{CudaDense, KernelChoice, unsupported};
use crate::driver::{CudaContext, Event, Stream, View};
use crate::encode::{Encoder, Sequences, check_address};
use crate::error::{Error, Result};
use crate::inputs::Source;
use crate::kernels::{ResultKind, ValueKind};
use crate::product::Product;
use crate::queue::Profiler;
use crate::results::{CardResults, Output};
use crate::sparse::CudaSparse;
use crate::table::CudaTabled;

/// A layer on a GPU with resident weights.
pub struct CudaLayer {
    spec: LayerSpec,
    product: Product,
    kind: Kind,
}

/// The use of a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LayerUse {
    /// Runs in calls of its own.
    Calls,
    /// Runs as a step of programs.
    Program,
}

enum Kind {
    Dense(Box<CudaDense>),
    /// A convolution, or a signed dense layer that runs in one launch or exceeds the device memory.
    Conv(Box<CudaConv>),
    Sparse(Box<CudaSparse>),
    Tabled(Box<CudaTabled>),
}

impl fmt::Debug for CudaLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let context = self.context();
        f.debug_struct("CudaLayer")
            .field("spec", &self.spec)
            .field("context", context)
            .finish_non_exhaustive()
    }
}

impl CudaLayer {
    pub(crate) fn new(
        context: &Arc<CudaContext>,
        spec: &LayerSpec,
        weights: &Weights,
        inputs: InputSign,
        layer_use: LayerUse,
        options: &PrepareOptions<'_>,
    ) -> Result<Self> {
        let product = Product::of(spec.polarity(), inputs);
        let (max_batch, cancel) = (options.max_batch, options.cancel);
        let (n, length) = (spec.n_inputs(), spec.length());
        let encoder = match spec.encoding().input_source() {
            InputSource::Bernoulli => {
                Encoder::Bernoulli { tag: spec.input_address(SampleSeed::new(0)).tag() }
            }
            InputSource::Sequences(shared) => {
                let stream = Stream::new(context)?;
                Encoder::Sequences(Sequences::of_inputs(context, &stream, &shared, n, length)?)
            }
        };
        let is_one_launch =
            product.is_signed() && layer_use == LayerUse::Program && runs_in_one_launch(spec);
        let kind = match (options.method.resolve(spec)?, spec.encoding(), spec.topology()) {
            (CountMethod::Tables, Encoding::Sequences(pairing), _) => Kind::Tabled(Box::new(
                CudaTabled::new(context, spec, weights, pairing, encoder, max_batch)?,
            )),
            (_, _, Topology::Sparse(connections)) => {
                let layer = CudaSparse::new(
                    context,
                    spec,
                    connections,
                    weights,
                    encoder,
                    max_batch,
                    cancel,
                )?;
                Kind::Sparse(Box::new(layer))
            }
            (_, _, Topology::Dense { .. }) if !is_one_launch => {
                let shape = spec.dense_shape().ok_or_else(|| unsupported("layers of this kind"))?;
                match CudaDense::new(context, spec, shape, weights, encoder, max_batch, cancel)? {
                    Ok(layer) => Kind::Dense(Box::new(layer)),
                    Err(encoder) => Kind::Conv(Box::new(CudaConv::new(
                        context, spec, weights, encoder, inputs, max_batch, cancel,
                    )?)),
                }
            }
            (_, _, Topology::Dense { .. } | Topology::Conv(_)) => {
                let layer =
                    CudaConv::new(context, spec, weights, encoder, inputs, max_batch, cancel)?;
                Kind::Conv(Box::new(layer))
            }
            _ => return Err(unsupported("layers of this kind")),
        };
        Ok(Self { spec: spec.clone(), product, kind })
    }

    /// Returns the same layer with another choice of kernel, if it is an unsigned dense layer that
    /// counts bits. Counts do not depend on it.
    #[must_use]
    pub fn with_kernel(mut self, choice: KernelChoice) -> Self {
        if let Kind::Dense(layer) = self.kind {
            self.kind = Kind::Dense(Box::new(layer.with_kernel(choice)));
        }
        self
    }

    /// Returns the specification.
    #[must_use]
    pub fn spec(&self) -> &LayerSpec {
        &self.spec
    }

    /// Returns the context.
    #[must_use]
    pub fn context(&self) -> &Arc<CudaContext> {
        match &self.kind {
            Kind::Dense(layer) => layer.context(),
            Kind::Conv(layer) => layer.context(),
            Kind::Sparse(layer) => layer.context(),
            Kind::Tabled(layer) => layer.context(),
        }
    }

    /// Returns the sizes of the buffers of a chunk.
    pub(crate) fn sizes(&self) -> Result<SetSizes> {
        match &self.kind {
            Kind::Dense(layer) => layer.sizes(),
            Kind::Conv(layer) => layer.sizes(),
            Kind::Sparse(layer) => Ok(layer.sizes()),
            Kind::Tabled(layer) => Ok(layer.sizes()),
        }
    }

    fn sets(&self) -> &BufferSets {
        match &self.kind {
            Kind::Dense(layer) => layer.sets(),
            Kind::Conv(layer) => layer.sets(),
            Kind::Sparse(layer) => layer.sets(),
            Kind::Tabled(layer) => layer.sets(),
        }
    }

    /// Allocates the buffers of a chunk, so that the first call does not have to.
    pub(crate) fn reserve(&self) -> Result<()> {
        self.sets().keep(BufferSet::new(self.context(), self.sizes()?)?);
        Ok(())
    }

    /// Frees buffers that no call uses.
    pub(crate) fn release(&self) {
        self.sets().clear();
    }

    /// Enqueues the counting of thresholds in device memory, at most a chunk of rows, on the stream
    /// of a set, without waiting for it. Results are rows by neurons.
    pub(crate) fn enqueue(
        &self,
        set: &mut BufferSet,
        thresholds: View<'_>,
        n_rows: usize,
        seed: SampleSeed,
        results: CardResults<'_>,
        options: &CountOptions<'_>,
    ) -> Result<()> {
        let source = Source::CardValues(thresholds, self.product.threshold_kind());
        let output = Output::Card(results);
        let first = self.spec.input_address(seed);
        if self.spec.encoding().input_source() == InputSource::Bernoulli {
            check_address(first, n_rows, self.spec.n_inputs())?;
        }
        match &self.kind {
            Kind::Dense(layer) => layer.enqueue(set, source, n_rows, first, output, options),
            Kind::Conv(layer) => layer.enqueue(set, source, n_rows, first, output, options),
            Kind::Sparse(layer) => layer.enqueue(set, source, n_rows, first, output, options),
            Kind::Tabled(layer) => layer.enqueue(set, source, n_rows, output, options),
        }
    }

    /// Returns the number of samples counted at a time; a batch runs in chunks of this size.
    #[must_use]
    pub fn chunk(&self) -> usize {
        match &self.kind {
            Kind::Dense(layer) => layer.chunk(),
            Kind::Conv(layer) => layer.chunk(),
            Kind::Sparse(layer) => layer.chunk(),
            Kind::Tabled(layer) => layer.chunk(),
        }
    }

    /// Returns whether all weight streams are resident; otherwise they are regenerated for every
    /// chunk.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        match &self.kind {
            Kind::Dense(layer) => layer.is_kept(),
            Kind::Conv(layer) => layer.is_kept(),
            Kind::Sparse(_) | Kind::Tabled(_) => true,
        }
    }

    /// Counts a batch, row-major of samples by neurons; `profiler` times the kernels.
    ///
    /// # Errors
    /// As for [`aleatron_core::backend::PreparedLayer::counts`].
    pub fn counts_with(
        &self,
        batch: &Batch<'_>,
        cancel: Cancel<'_>,
        profiler: Option<&Profiler>,
    ) -> Result<Vec<u64>> {
        let n_samples = batch.check(&self.spec)?;
        let source = match batch.inputs {
            Inputs::Values(values) => Source::Values(values),
            Inputs::Thresholds(thresholds) => Source::Thresholds(thresholds),
            Inputs::Streams(words) => Source::Streams(words),
            Inputs::SignedStreams { words, negative } => Source::SignedStreams(words, negative),
            _ => return Err(unsupported("inputs of this kind")),
        };
        let output = Output::counts(n_samples, self.spec.n_neurons())?;
        self.count(
            source,
            n_samples,
            batch.seed,
            output,
            &CountOptions { cancel, profiler, after: None, program: None },
        )
    }

    /// Counts arrays in device memory, and leaves the results there: all work is complete on
    /// return.
    ///
    /// # Errors
    /// Returns [`Error::Array`] for arrays that are not on this GPU, overlap or do not fit the
    /// layer, and errors of [`Self::counts_with`].
    pub fn count_arrays(&self, batch: &mut DeviceBatch<'_>, cancel: Cancel<'_>) -> Result<()> {
        let DeviceBatch { inputs, outputs, seed, order } = batch;
        let outputs = outputs.array();
        let n_samples = self.spec.samples_in(inputs.len())?;
        if self.spec.encoding().input_source() == InputSource::Bernoulli
            && let Some(last) = n_samples.checked_sub(1)
        {
            seed.advanced(last)?;
        }
        let needed = n_samples as u128 * self.spec.n_neurons() as u128;
        if outputs.len() as u128 != needed {
            let message = format!(
                "the results are {needed} elements, but the array for them has {}",
                outputs.len()
            );
            return Err(Error::Array(message));
        }
        if needed == 0 {
            return Ok(());
        }
        let kind = match outputs.element() {
            DeviceElement::U64 => ResultKind::Counts,
            DeviceElement::F64 => self.product.result_kind(),
            element => {
                return Err(Error::Array(format!("results are uint64 or float64, not {element}")));
            }
        };
        let values = match inputs.element() {
            DeviceElement::F64 => self.product.value_kind(),
            DeviceElement::F32 => self.product.single_kind(),
            element => {
                return Err(Error::Array(format!("inputs are float64 or float32, not {element}")));
            }
        };
        check_apart(inputs, outputs)?;
        let context = self.context();
        let source = Source::CardValues(View::of_array(context, inputs)?, values);
        let view = View::of_array(context, outputs)?;
        // The producer of the inputs comes first. Calls end with all work done, so that the
        // caller's stream has nothing to wait for.
        let event = match order {
            InputOrder::Ready => None,
            InputOrder::AfterStream(stream) => {
                let (stream, event) = (Stream::of_device(context, *stream)?, Event::new(context)?);
                event.record(&stream)?;
                Some(event)
            }
            InputOrder::AfterAll => {
                context.synchronize()?;
                None
            }
        };
        let options = CountOptions { cancel, profiler: None, after: event.as_ref(), program: None };
        self.count(
            source,
            n_samples,
            *seed,
            Output::Card(CardResults { view, kind, stage: None }),
            &options,
        )
        .map(drop)
    }

    fn count(
        &self,
        source: Source<'_>,
        n_samples: usize,
        seed: SampleSeed,
        output: Output<'_>,
        options: &CountOptions<'_>,
    ) -> Result<Vec<u64>> {
        let first = self.spec.input_address(seed);
        if self.spec.encoding().input_source() == InputSource::Bernoulli {
            check_address(first, n_samples, self.spec.n_inputs())?;
        }
        match &self.kind {
            Kind::Dense(layer) => layer.counts(source, n_samples, first, output, options),
            Kind::Conv(layer) => layer.counts(source, n_samples, first, output, options),
            Kind::Sparse(layer) => layer.counts(source, n_samples, first, output, options),
            Kind::Tabled(_) if source.kind(self.product) == ValueKind::PackedStreams => {
                Err(unsupported("streams for a layer of tables"))
            }
            Kind::Tabled(layer) => layer.counts(source, n_samples, output, options),
        }
    }
}

/// Checks that results do not overwrite inputs.
fn check_apart(inputs: &DeviceArray<'_>, outputs: &DeviceArray<'_>) -> Result<()> {
    let end = |array: &DeviceArray<'_>| u128::from(array.address()) + u128::from(array.bytes());
    if u128::from(inputs.address()) < end(outputs) && u128::from(outputs.address()) < end(inputs) {
        return Err(Error::Array("the array for the results overlaps the inputs".to_owned()));
    }
    Ok(())
}
