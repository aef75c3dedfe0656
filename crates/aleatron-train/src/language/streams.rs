//! The linear products of fine-tuning as streams: the forward pass is that of the engine's counts.

use std::sync::Arc;

use aleatron_core::arithmetic::Arithmetic;
use aleatron_core::{Cancel, LayerIndex, SampleSeed};
use aleatron_engine::StreamProduct;
use aleatron_engine::network::StreamConfig;
use aleatron_tensor::Tensor;
use aleatron_transformer::{Config, LinearId};

use crate::forward::straight_through;
use crate::{Error, Result};

/// The streams that a model is fine-tuned through.
#[derive(Debug, Clone, PartialEq)]
pub struct LanguageStreams {
    /// The length, the generator and the other settings of all products; generators with a seed
    /// get a new one in each step.
    pub streams: StreamConfig,
    /// The input that becomes 1, for each product in the order of [`LinearId::all`]. Larger inputs
    /// saturate.
    pub input_scales: Vec<f64>,
}

impl LanguageStreams {
    /// Checks the settings for a model.
    pub(super) fn check(&self, config: &Config) -> Result<()> {
        if self.streams.arithmetic != Arithmetic::Float {
            let reason = "attention and norms are in floating point: use float";
            return Err(Error::option("arithmetic", self.streams.arithmetic, reason));
        }
        let actual = self.input_scales.len();
        if actual != LinearId::all(config).len() {
            return Err(Error::option(
                "number of input scales",
                actual,
                "there must be one for each linear product",
            ));
        }
        match self.input_scales.iter().find(|scale| !(**scale > 0.0 && scale.is_finite())) {
            Some(scale) => {
                Err(Error::option("input scale", scale, "it must be positive and finite"))
            }
            None => Ok(()),
        }
    }
}

/// The streams of one forward pass.
#[derive(Debug)]
pub(super) struct StreamPass {
    pub(super) settings: Arc<LanguageStreams>,
    pub(super) config: Arc<Config>,
    pub(super) seed: u64,
}

impl StreamPass {
    /// Returns inputs of a product without the part that saturates, through which no gradient
    /// flows.
    pub(super) fn clip(&self, linear: LinearId, x: &Tensor) -> Result<Tensor> {
        let scale = self.scale(linear)?;
        Ok(x.clip(-scale, scale)?)
    }

    /// Replaces the outputs of a product in floating point by those of streams and passes gradients
    /// on unchanged. `weights` has a row of inputs for each output, in the order of the matrix of
    /// the product, and `outputs` are the columns of the product, given by the rows of the matrix
    /// that each column represents.
    pub(super) fn replace(
        &self,
        linear: LinearId,
        x: &Tensor,
        weights: &[f32],
        outputs: Vec<(Tensor, Vec<usize>)>,
    ) -> Result<Vec<Tensor>> {
        let index = linear.index(&self.config);
        let [n_outputs, n_inputs] = linear.shape(&self.config);
        let streams = &self.settings.streams;
        let settings = streams.settings_of(&linear.to_string());
        let product = StreamProduct::new(
            weights,
            n_inputs,
            self.scale(linear)?,
            &settings,
            self.seed,
            LayerIndex::new(index)?,
            &streams.device,
            Cancel::NEVER,
        )?;
        // Rows are positions: sequence by sequence, as the samples of an evaluation.
        let (values, _) = product.run(&x.detach().to_vec::<f32>()?, SampleSeed::new(self.seed))?;
        let columns = outputs.into_iter().map(|(output, rows)| {
            let of_position =
                |position: &[f64]| rows.iter().map(|&row| position[row] as f32).collect::<Vec<_>>();
            straight_through(
                &output,
                values.chunks_exact(n_outputs).flat_map(of_position).collect(),
            )
        });
        columns.collect()
    }

    fn scale(&self, linear: LinearId) -> Result<f64> {
        let scale = self.settings.input_scales.get(linear.index(&self.config)).copied();
        scale.ok_or_else(|| Error::internal("language/streams.rs, scale"))
    }
}
