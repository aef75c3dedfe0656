//! The forward pass of a network with gradients: in floating point, through streams, or with their
//! noise.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use aleatron_core::{Cancel, Polarity};
use aleatron_engine::network::{Layer, Mode, Network, StreamConfig, ValueRange};
use aleatron_engine::stream::{Detail, Measured};
use aleatron_graph::{Node, Observer, Op, Runner, ValueId};
use aleatron_tensor::autograd::{self, Function};
use aleatron_tensor::{Device, Tensor};

use crate::batches::seed_of;
use crate::{Error, Parameter, Result};

/// The forward pass of training.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum Forward {
    /// In floating point.
    #[default]
    Float,
    /// Through its streams, bit for bit as in an evaluation: generators, comparator widths,
    /// saturation and inter-layer arithmetic included. Steps take the configurations in turn.
    /// Generators with a seed get a new one in each step, and so do faults: permanent ones are
    /// those of another circuit in each step.
    Streams(Vec<StreamConfig>),
    /// In floating point with noise of the variance that Bernoulli streams of these lengths have;
    /// steps take the lengths in turn. This is cheaper than [`Self::Streams`] and models neither
    /// saturation beyond that of the inputs, nor quantization, nor sequences.
    Noise {
        /// Bits per stream.
        lengths: Vec<usize>,
    },
}

impl Forward {
    /// Checks that a network can run so, before any work.
    pub(crate) fn check(&self, network: &Network) -> Result<()> {
        let is_empty = match self {
            Self::Float => false,
            Self::Streams(configs) => {
                for config in configs {
                    network.check_config(config)?;
                }
                configs.is_empty()
            }
            Self::Noise { lengths } => {
                if let Some(length) = lengths.iter().find(|&&length| length == 0) {
                    return Err(Error::option("stream length", length, "it must be at least 1"));
                }
                lengths.is_empty()
            }
        };
        match is_empty {
            true => Err(Error::option("number of stream lengths", 0, "it must be at least 1")),
            false => Ok(()),
        }
    }

    /// Returns the configurations that the result of training is evaluated with; none for floating
    /// point.
    pub(crate) fn configs(&self) -> Vec<StreamConfig> {
        match self {
            Self::Float => Vec::new(),
            Self::Streams(configs) => configs.clone(),
            // Training clips values outside the interval of streams, too.
            Self::Noise { lengths } => {
                let config = |&length| StreamConfig::new(length).range(ValueRange::Saturate);
                lengths.iter().map(config).collect()
            }
        }
    }
}

/// A network in training: its graph, whose constants are replaced by parameters.
pub(crate) struct Model {
    network: Network,
    runner: Runner,
    parameters: Vec<(ValueId, String, Parameter)>,
    /// By the index of the node: the layer that computes there.
    layers: HashMap<usize, usize>,
    /// The layer whose output, bias included, a node computes, by the index of the node.
    outputs: HashMap<usize, usize>,
}

impl Model {
    pub(crate) fn new(network: &Network, device: &Device) -> Result<Self> {
        let mut parameters = Vec::new();
        for parameter in network.parameters()? {
            let value = parameter.value.to_device(device)?;
            parameters.push((parameter.id, parameter.name, Parameter::new(&value)?));
        }
        if parameters.is_empty() {
            return Err(Error::NoParameters { network: network.name().to_owned() });
        }
        let runner = Runner::new(network.graph().clone(), device)?;
        let streamed = || network.stream_layers();
        let layers = streamed().map(|(index, layer)| (layer.node, index)).collect();
        let outputs = streamed().map(|(index, layer)| (layer.output_node(), index)).collect();
        Ok(Self { network: network.clone(), runner, parameters, layers, outputs })
    }

    /// Returns the parameters, for an optimizer.
    pub(crate) fn parameters(&self) -> Vec<Parameter> {
        self.parameters.iter().map(|(_, _, parameter)| parameter.clone()).collect()
    }

    /// Returns the parameters with their names.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&str, &Parameter)> {
        self.parameters.iter().map(|(_, name, parameter)| (name.as_str(), parameter))
    }

    /// Returns the number of samples of a run, if the network fixes it.
    pub(crate) fn batch(&self) -> Option<usize> {
        self.network.batch()
    }

    fn values(&self) -> HashMap<ValueId, Tensor> {
        self.parameters.iter().map(|(id, _, parameter)| (*id, parameter.tensor())).collect()
    }

    /// Returns the network with the parameters as they are now.
    pub(crate) fn network(&self) -> Result<Network> {
        let mut values = HashMap::new();
        for (id, _, parameter) in &self.parameters {
            values.insert(*id, parameter.tensor().detach().to_device(&Device::Cpu)?);
        }
        Ok(self.network.with_parameters(&values)?)
    }

    /// Moves weights of unipolar layers that became negative back to 0: their streams have no
    /// negative values.
    pub(crate) fn project(&self) -> Result<()> {
        for layer in self.network.layers() {
            if layer.mode != Mode::Streams || layer.polarity != Polarity::Unipolar {
                continue;
            }
            let node = &self.network.graph().nodes()[layer.node];
            let weights = node.inputs.get(1).copied().flatten();
            if let Some((_, _, parameter)) =
                self.parameters.iter().find(|(id, _, _)| Some(*id) == weights)
            {
                let value = parameter.tensor().detach();
                parameter.set(&value.maximum(0.0)?)?;
            }
        }
        Ok(())
    }

    /// Computes the scores `[n, outputs]` of samples, with gradients to the parameters. `step`
    /// selects the configuration and the seed of random streams.
    pub(crate) fn scores(
        &self,
        features: &[f64],
        forward: &Forward,
        seed: u64,
        step: u64,
        cancel: Cancel<'_>,
    ) -> Result<Tensor> {
        let inputs = self.network.input_tensors(features)?;
        let n_samples = features.len() / self.network.n_features();
        let mut pass = Pass {
            model: self,
            parameters: HashSet::new(),
            tracked: HashSet::new(),
            clips: !matches!(forward, Forward::Float),
            values: HashMap::new(),
            noise: None,
            cancel,
        };
        let own = seed_of(seed, step);
        let mut exact = None;
        match forward {
            Forward::Float => {}
            Forward::Noise { lengths } => {
                pass.noise = Some((lengths[step as usize % lengths.len().max(1)], own));
            }
            Forward::Streams(configs) => {
                let mut config = configs[step as usize % configs.len().max(1)].clone();
                if config.settings.generator.is_seeded() || !config.faults.is_empty() {
                    config.seed = own;
                }
                let network = Arc::new(self.network()?);
                let streams = Arc::clone(&network).into_streams(&config, cancel)?;
                let detail = Detail { layers: Measured::Enabled, ..Detail::default() };
                let output = streams.run(features, 0, detail, cancel)?;
                let specs: HashMap<usize, _> = streams.layers()?.into_iter().collect();
                for layer in output.layers {
                    let spec = specs
                        .get(&layer.layer)
                        .ok_or_else(|| Error::internal("train::Model::scores"))?;
                    let values = network.decode_layer(layer.layer, &spec.spec, &layer.counts)?;
                    pass.values.insert(
                        layer.layer,
                        values.into_iter().map(|value| value as f32).collect(),
                    );
                }
                exact = Some(output.scores);
            }
        }
        let constants = self.values();
        pass.parameters = constants.keys().copied().collect();
        let outputs = self.runner.run_replacing(inputs, &constants, &mut pass)?;
        let scores =
            outputs.into_iter().next().ok_or_else(|| Error::internal("train::Model::scores"))?;
        let scores = scores.reshape(&[n_samples, self.network.n_outputs()])?;
        match exact {
            // The outputs of the engine, with the rounding of integer arithmetic behind the last
            // layer.
            Some(exact) => {
                straight_through(&scores, exact.into_iter().map(|value| value as f32).collect())
            }
            None => Ok(scores),
        }
    }
}

/// State of one in-flight forward pass.
struct Pass<'a> {
    model: &'a Model,
    parameters: HashSet<ValueId>,
    /// Values through which a gradient flows.
    tracked: HashSet<ValueId>,
    /// Whether inputs of layers saturate.
    clips: bool,
    /// The decoded counts of each layer.
    values: HashMap<usize, Vec<f32>>,
    /// Bits per stream, and the seed of the noise.
    noise: Option<(usize, u64)>,
    cancel: Cancel<'a>,
}

impl Pass<'_> {
    /// Computes a layer on inputs that saturate, as its streams do.
    fn layer(
        &self,
        index: usize,
        node: &Node,
        inputs: &[Option<Tensor>],
    ) -> Result<Option<Vec<Tensor>>> {
        let layer = &self.model.network.layers()[index];
        let Some(Some(x)) = inputs.first() else { return Ok(None) };
        let [low, high] = layer.polarity.interval().map(|bound| bound * layer.input_scale);
        let clipped = x.clip(low, high)?;
        let mut inputs = inputs.to_vec();
        inputs[0] = Some(clipped.clone());
        let mut outputs = self.model.runner.compute_with(node, &inputs)?;
        if let (Some((length, seed)), Some(output)) = (self.noise, outputs.first_mut()) {
            let deviation = autograd::no_grad(|| self.deviation(layer, node, &inputs, length))?;
            let seed = seed_of(seed, index as u64);
            let noise =
                Tensor::randn_seeded(output.shape(), seed, output.dtype(), &output.device())?;
            *output = output.add(&noise.mul(&deviation)?)?;
        }
        Ok(Some(outputs))
    }

    /// Computes the standard deviation of the outputs of a layer whose streams are independent
    /// Bernoulli streams.
    ///
    /// A product of unipolar or signed streams with values u and v is a bit (with a sign) of
    /// probability |uv|, whose variance is |uv| - (uv)^2; that of bipolar streams has the variance 1 - (uv)^2. A neuron adds `length` independent bits of each product and divides
    /// by the length.
    fn deviation(
        &self,
        layer: &Layer,
        node: &Node,
        inputs: &[Option<Tensor>],
        length: usize,
    ) -> Result<Tensor> {
        let missing = || Error::internal("train::Pass::deviation");
        let (Some(Some(x)), Some(Some(w))) = (inputs.first(), inputs.get(1)) else {
            return Err(missing());
        };
        // The product itself multiplies by alpha once; the square needs it twice.
        let alpha = if let Op::Gemm { alpha, .. } = &node.op { f64::from(*alpha) } else { 1.0 };
        let of = |x: Tensor, w: Tensor| -> Result<Tensor> {
            let outputs = self.model.runner.compute_with(node, &[Some(x), Some(w)])?;
            outputs.into_iter().next().ok_or_else(missing)
        };
        let squares = of(x.square()?, w.square()?.mul(alpha)?)?;
        let scales = self.row_scales(layer, &squares)?;
        let ones = match layer.polarity {
            // The largest variance of a product, in the units of the network.
            Polarity::Bipolar => {
                let ones = of(
                    Tensor::ones(x.shape(), x.dtype(), &x.device())?,
                    Tensor::ones(w.shape(), w.dtype(), &w.device())?,
                )?;
                ones.div(alpha)?.mul(&scales.square()?)?
            }
            Polarity::Unipolar | Polarity::Signed => {
                of(x.abs()?, w.abs()?.mul(alpha.signum())?)?.mul(&scales)?
            }
        };
        Ok(ones.sub(&squares)?.maximum(0.0)?.div(length as f64)?.sqrt()?)
    }

    /// Returns the decoded value of a product of 1 for each output, broadcastable to the outputs.
    fn row_scales(&self, layer: &Layer, outputs: &Tensor) -> Result<Tensor> {
        let rows: Vec<f32> = (0..layer.product.n_rows())
            .map(|row| (layer.input_scale * layer.weight_scale(row)) as f32)
            .collect();
        let mut shape = vec![1; outputs.rank()];
        let axis = match layer.product.kind {
            aleatron_engine::network::ProductKind::Dense { .. } => outputs.rank().saturating_sub(1),
            aleatron_engine::network::ProductKind::Conv { .. } => 1,
        };
        match shape.get_mut(axis) {
            Some(size) => *size = rows.len(),
            None => return Err(Error::internal("train::Pass::row_scales")),
        }
        Ok(Tensor::from_slice(&rows, &shape, &outputs.device())?)
    }
}

impl Observer for Pass<'_> {
    fn compute(
        &mut self,
        index: usize,
        node: &Node,
        inputs: &[Option<Tensor>],
    ) -> aleatron_graph::Result<Option<Vec<Tensor>>> {
        self.cancel.check()?;
        match self.model.layers.get(&index) {
            Some(&layer) if self.clips => {
                self.layer(layer, node, inputs).map_err(Error::into_graph)
            }
            _ => Ok(None),
        }
    }

    fn made(
        &mut self,
        index: usize,
        node: &Node,
        outputs: &mut [Tensor],
    ) -> aleatron_graph::Result<()> {
        if let Some(layer) = self.model.outputs.get(&index)
            && let (Some(values), Some(output)) = (self.values.remove(layer), outputs.first_mut())
        {
            *output = straight_through(output, values).map_err(Error::into_graph)?;
        }
        let is_source = |id: ValueId| self.tracked.contains(&id) || self.parameters.contains(&id);
        let from = node.needs().find(|&id| is_source(id));
        for (id, output) in node.outputs.iter().zip(outputs.iter()) {
            if let (Some(id), true) = (id, output.is_tracked()) {
                self.tracked.insert(*id);
            } else if from.is_some() && output.dtype().is_float() && !output.is_empty() {
                let layer = self.model.network.layers().iter().rfind(|layer| layer.node <= index);
                let layer = layer.map_or_else(String::new, |layer| layer.name.clone());
                let (node, operator) = (node.name.clone(), node.op.name().to_owned());
                return Err(Error::NoGradient { node, operator, layer }.into_graph());
            }
        }
        Ok(())
    }
}

/// Replaces the elements of a tensor and passes its gradient on unchanged.
pub(crate) fn straight_through(tensor: &Tensor, values: Vec<f32>) -> Result<Tensor> {
    if values.len() != tensor.len() {
        return Err(Error::internal("train::straight_through"));
    }
    let values = Tensor::from_vec(values, tensor.shape(), &Device::Cpu)?;
    let values = values.cast(tensor.dtype())?.to_device(&tensor.device())?;
    Ok(autograd::apply(StraightThrough(values), &[tensor])?)
}

/// A function with a given result and the gradient of the identity.
struct StraightThrough(Tensor);

impl Function for StraightThrough {
    fn name(&self) -> &'static str {
        "straight_through"
    }

    fn forward(&self, _: &[Tensor]) -> aleatron_tensor::Result<Tensor> {
        Ok(self.0.clone())
    }

    fn backward(
        &self,
        _: &[Tensor],
        _: &Tensor,
        gradient: &Tensor,
    ) -> aleatron_tensor::Result<Vec<Option<Tensor>>> {
        Ok(vec![Some(gradient.clone())])
    }
}
