//! Linear products of floating-point weights and inputs as streams.

use crate::backend::Batch;
use crate::network::{LayerSettings, WeightScale, scaled_weights, weight_scales};
use crate::{Device, Result, StreamLayer};
use aleatron_core::arithmetic::{Activation, FloatStage, saturate};
use aleatron_core::{Cancel, LayerIndex, Polarity, Quantity, SampleSeed, memory};

/// A linear product as a dense layer of signed streams: weights are divided by the largest
/// magnitude of their row and inputs by a scale, and the counts are multiplied by both.
///
/// ```
/// use aleatron_core::{Cancel, LayerIndex, SampleSeed};
/// use aleatron_engine::network::StreamConfig;
/// use aleatron_engine::{Device, StreamProduct};
///
/// let settings = StreamConfig::new(256).generator("sobol".parse()?).settings;
/// let weights = [2.0, -1.0, 0.5, 4.0];
/// let product = StreamProduct::new(&weights, 2, 8.0, &settings, 0, LayerIndex::new(0)?, &Device::Cpu, Cancel::NEVER)?;
/// let (outputs, saturated) = product.run(&[8.0, -9.0], SampleSeed::new(0))?;
/// // The second input saturates at -8.
/// assert_eq!((outputs, saturated), (vec![24.0, -28.0], 1));
/// # Ok::<(), aleatron_engine::Error>(())
/// ```
#[derive(Debug)]
pub struct StreamProduct {
    layer: StreamLayer,
    input_scale: f64,
    stage: FloatStage,
}

impl StreamProduct {
    /// Encodes weights, a row for each output; `seed` is that of Bernoulli streams of weights.
    ///
    /// # Errors
    /// Returns [`aleatron_core::Error`] for settings that the layer does not support, weights that
    /// are not finite or do not fit, or a failing device; [`aleatron_core::Error::Cancelled`].
    #[expect(clippy::too_many_arguments, reason = "each is needed, and none has a default")]
    pub fn new(
        weights: &[f32],
        n_inputs: usize,
        input_scale: f64,
        settings: &LayerSettings,
        seed: u64,
        index: LayerIndex,
        device: &Device,
        cancel: Cancel<'_>,
    ) -> Result<Self> {
        let rows = weight_scales(weights, n_inputs, WeightScale::PerRow);
        let layer = StreamLayer::dense(n_inputs, rows.len())
            .signed()
            .length(settings.length)
            .generator(settings.generator)
            .width(settings.width)
            .sharing(settings.sharing)
            .seed(seed)
            .at(index)
            .weights(&scaled_weights(weights, n_inputs, &rows))
            .device(device.clone())
            .build_with(cancel)?;
        let stage = FloatStage {
            bias: vec![0.0; rows.len()],
            scales: rows.iter().map(|scale| input_scale * scale).collect(),
            activation: Activation::Identity,
        };
        Ok(Self { layer, input_scale, stage })
    }

    /// Returns the layer.
    #[must_use]
    pub fn layer(&self) -> &StreamLayer {
        &self.layer
    }

    /// Returns the input that becomes 1.
    #[must_use]
    pub fn input_scale(&self) -> f64 {
        self.input_scale
    }

    /// Returns the largest factor between the counted value of an output and the output.
    #[must_use]
    pub fn largest_scale(&self) -> f64 {
        self.stage.scales.iter().fold(0.0, |most, &scale| most.max(scale))
    }

    /// Returns the outputs of consecutive samples, and the number of inputs that saturated.
    ///
    /// # Errors
    /// Returns [`aleatron_core::Error`] for inputs that are not whole samples or NaN, or a failing
    /// device.
    pub fn run(&self, inputs: &[f32], seed: SampleSeed) -> Result<(Vec<f64>, u64)> {
        let mut values = memory::with_capacity(inputs.len() as u128, Quantity::Inputs)?;
        values.extend(inputs.iter().map(|&x| f64::from(x)));
        let saturated = saturate(&mut values, self.input_scale, Polarity::Signed);
        let counts = self.layer.count(&Batch::values(&values, seed), Cancel::NEVER)?;
        Ok((self.stage.outputs(self.layer.spec(), &counts), saturated))
    }
}
