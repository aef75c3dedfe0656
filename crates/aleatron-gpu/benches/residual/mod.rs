//! A residual network in integer arithmetic with random weights, as a program.

use aleatron_core::arithmetic::{
    Accumulator, Activation, FloatStage, Pool, PoolKind, PoolShape, Requantizer, Rescaler,
};
use aleatron_core::program::{Bounds, Pattern, Program, ProgramBuilder, Sign, SlotId, ValueRange};
use aleatron_core::{
    ConvShape, Convolution, Encoding, LayerIndex, LayerSpec, Length, Polarity, Result, Topology,
    Weights, Width,
};

/// Integers of an image in units of `unit`.
#[derive(Clone, Copy)]
struct Image {
    slot: SlotId,
    shape: [usize; 3],
    unit: f64,
}

struct Network {
    program: ProgramBuilder,
    length: Length,
    n_layers: usize,
}

/// Whether negative sums become 0.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sums {
    Rectified,
    Signed,
}

/// Creates a network for images of 3 channels: three stages of `blocks` blocks of two convolutions
/// each, of 16, 32 and 64 channels.
pub(crate) fn network(size: usize, blocks: usize, bits: usize) -> Result<Program> {
    let mut network =
        Network { program: ProgramBuilder::default(), length: Length::new(bits)?, n_layers: 0 };
    let features = network.program.input(3 * size * size)?;
    let convolution = Convolution::conv2d([3, size, size], 16, [3, 3]).with_padding([1, 1]);
    let layer = network.layer(Topology::Conv(ConvShape::new(convolution)?))?;
    let thresholds = network.program.quantize(layer, features, 1.0, None, ValueRange::Check)?;
    network.program.set_non_negative(layer)?;
    let mut image = network.counted(layer, thresholds, [16, size, size], Sums::Rectified)?;
    for (stage, channels) in [16, 32, 64].into_iter().enumerate() {
        for block in 0..blocks {
            let stride = if stage > 0 && block == 0 { 2 } else { 1 };
            image = network.block(image, channels, stride)?;
        }
    }
    let [channels, rows, columns] = image.shape;
    let pool = PoolShape::new(Pool::global(PoolKind::Average, [rows, columns]), image.shape)?;
    let slot = network.program.pool(image.slot, pool)?;
    let layer = network.layer(Topology::Dense { n_inputs: channels, n_neurons: 10 })?;
    let thresholds =
        network.thresholds(layer, Image { slot, shape: [channels, 1, 1], unit: image.unit })?;
    let scores = network.counted(layer, thresholds, [10, 1, 1], Sums::Signed)?;
    let scores = network.program.restore(scores.slot, Pattern::uniform(scores.unit))?;
    network.program.finish(vec![scores])
}

impl Network {
    fn layer(&mut self, topology: Topology) -> Result<usize> {
        let encoding = Encoding::Bernoulli { seed: 0x5eed };
        let index = LayerIndex::new(self.n_layers)?;
        let spec = LayerSpec::new(topology, self.length, Polarity::Signed, encoding)?.at(index);
        self.n_layers += 1;
        let weights = Weights::random(&spec, self.n_layers as u64)?;
        self.program.layer(spec, weights, 1)
    }

    fn counted(
        &mut self,
        layer: usize,
        thresholds: SlotId,
        shape: [usize; 3],
        sums: Sums,
    ) -> Result<Image> {
        let missing = aleatron_core::Error::Internal { place: "gpu_bench::residual" };
        let spec = self.program.layer_at(layer).ok_or(missing)?.spec.clone();
        let counts = self.program.product(layer, thresholds)?;
        let activation =
            if sums == Sums::Rectified { Activation::Relu } else { Activation::Identity };
        // Random weights add up to about the square root of their number.
        let scale = 1.0 / (spec.max_fan_in() as f64).sqrt();
        let stage = FloatStage { scales: vec![scale], bias: vec![0.05; spec.n_rows()], activation };
        let accumulator = Accumulator::calibrated(&spec, &stage, 4)?;
        let unit = accumulator.unit(spec.length(), scale);
        let slot = self.program.accumulate(layer, counts, accumulator)?;
        Ok(Image { slot, shape, unit })
    }

    /// Adds the thresholds of a layer after a rectifier.
    fn thresholds(&mut self, layer: usize, image: Image) -> Result<SlotId> {
        self.program.set_non_negative(layer)?;
        let requantizer =
            Requantizer::of_unit(image.unit, 2.0, 16, Width::new(16)?, Polarity::Signed)?;
        self.program.requantize(layer, image.slot, Pattern::uniform(requantizer))
    }

    fn conv(
        &mut self,
        image: Image,
        channels: usize,
        kernel: usize,
        stride: usize,
        sums: Sums,
    ) -> Result<Image> {
        let padding = kernel / 2;
        let convolution = Convolution::conv2d(image.shape, channels, [kernel; 2])
            .with_padding([padding; 2])
            .with_stride([stride; 2]);
        let shape = ConvShape::new(convolution)?;
        let layer = self.layer(Topology::Conv(shape))?;
        let thresholds = self.thresholds(layer, image)?;
        self.counted(layer, thresholds, shape.output(), sums)
    }

    /// Adds two convolutions with a shortcut, which is a convolution itself if the shape changes.
    fn block(&mut self, image: Image, channels: usize, stride: usize) -> Result<Image> {
        let inner = self.conv(image, channels, 3, stride, Sums::Rectified)?;
        let outer = self.conv(inner, channels, 3, 1, Sums::Signed)?;
        let around = match image.shape == outer.shape {
            true => image,
            false => self.conv(image, channels, 1, stride, Sums::Signed)?,
        };
        let finer = outer.unit.min(around.unit);
        let rescaler = |unit: f64| match unit > finer {
            true => Rescaler::calibrated(unit, finer, 16).map(Some),
            false => Ok(None),
        };
        let rescale = Pattern::uniform([rescaler(outer.unit)?, rescaler(around.unit)?]);
        let slot = self.program.combine([outer.slot, around.slot], Sign::Plus, Some(rescale))?;
        let slot = self.program.clip(slot, Bounds::Integer(Pattern::uniform([0, i64::MAX])))?;
        Ok(Image { slot, shape: outer.shape, unit: finer })
    }
}
