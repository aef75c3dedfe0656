//! Designs for fitting the cost model, and held-out designs for checking it.

use aleatron_core::arithmetic::{Pool, PoolKind};
use aleatron_core::generator::Sharing;
use aleatron_core::{ConvShape, Convolution, Polarity, Width};
use aleatron_engine::network::{Activation, Arithmetic, Network, NetworkBuilder, StreamConfig};
use aleatron_hardware::circuit::InputInterval;
use aleatron_hardware::{Options, Output, Pipeline};
use std::error::Error;
use std::fmt::Write as _;

/// The use of a design.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Coefficients are fitted to it.
    Fit,
    /// The model is checked with it. Its terms and coefficients were fixed before the design was
    /// measured.
    HeldOut,
}

/// A network, its streams and its circuit.
pub(crate) struct Case {
    pub(crate) name: String,
    pub(crate) role: Use,
    pub(crate) network: Network,
    pub(crate) config: StreamConfig,
    pub(crate) options: Options,
    pub(crate) polarity: Polarity,
}

/// Pseudo-random numbers, the same ones in every run.
pub(crate) struct Draws(pub(crate) u64);

impl Draws {
    fn unit(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 40) as f64 / (1_u64 << 24) as f64
    }

    /// Returns weights with the bell shape of trained ones.
    fn weights(&mut self, n: usize, polarity: Polarity) -> Vec<f64> {
        let bell = |draws: &mut Self| (draws.unit() + draws.unit() + draws.unit()) / 1.5 - 1.0;
        (0..n)
            .map(|_| match polarity {
                Polarity::Unipolar => bell(self).abs(),
                _ => bell(self),
            })
            .collect()
    }

    /// Returns samples, half of whose features are 0.
    pub(crate) fn samples(&mut self, n: usize, polarity: Polarity) -> Vec<f64> {
        (0..n)
            .map(|_| match (self.unit() < 0.5, polarity) {
                (true, _) => 0.0,
                (false, Polarity::Signed | Polarity::Unipolar) => self.unit(),
                (false, _) => 2.0 * self.unit() - 1.0,
            })
            .collect()
    }
}

fn dense(sizes: &[usize], polarity: Polarity) -> Result<Network, Box<dyn Error>> {
    let mut draws = Draws(sizes.iter().sum::<usize>() as u64);
    let mut builder = NetworkBuilder::new("dense", &sizes[..1]);
    for (k, pair) in sizes.windows(2).enumerate() {
        let [n, m] = [pair[0], pair[1]];
        let (weights, biases) =
            (draws.weights(n * m, polarity), draws.weights(m, Polarity::Bipolar));
        builder = builder.dense(&format!("layer{k}"), n, &weights, &biases).polarity(polarity);
        if k + 2 < sizes.len() {
            builder = builder.activation(Activation::Relu);
        }
    }
    Ok(builder.build()?)
}

/// Returns a convolution of 3 by 3, a pool of 2 by 2 and a dense layer. The side of the image must
/// be even: the simulation ends with the last result, so that windows that no pool reads would
/// count in all samples except the last one.
fn conv(
    channels: usize,
    size: usize,
    out: usize,
    polarity: Polarity,
) -> Result<Network, Box<dyn Error>> {
    let mut draws = Draws((channels + 100 * size + out) as u64);
    let convolution = Convolution::conv2d([channels, size, size], out, [3, 3]);
    let shape = ConvShape::new(convolution)?;
    let [_, rows, columns] = shape.output();
    let n = out * (rows / 2) * (columns / 2);
    let kind = if out.is_multiple_of(2) { PoolKind::Max } else { PoolKind::Average };
    let builder = NetworkBuilder::new("conv", &[channels, size, size])
        .convolution(
            "conv",
            convolution,
            &draws.weights(shape.n_weights(), polarity),
            &draws.weights(out, Polarity::Bipolar),
        )
        .polarity(polarity)
        .activation(Activation::Relu)
        .pool(Pool::new(kind, [2, 2]))
        .dense("last", n, &draws.weights(n * 5, polarity), &[])
        .polarity(polarity);
    Ok(builder.build()?)
}

/// The network of a design.
#[derive(Debug, Clone, Copy)]
enum Shape {
    /// The sizes of dense layers.
    Dense(&'static [usize]),
    /// The channels, the side of the image and the output channels of a convolution; see [`conv`].
    Conv(usize, usize, usize),
    /// The embedded network `noise_aware`.
    Digits,
}

/// A design before its network is built.
#[derive(Clone)]
struct Plan {
    role: Use,
    shape: Shape,
    polarity: Polarity,
    length: usize,
    generator: &'static str,
    sharing: Sharing,
    width: Option<u32>,
    options: Options,
}

impl Plan {
    fn new(
        role: Use,
        shape: Shape,
        polarity: Polarity,
        length: usize,
        generator: &'static str,
    ) -> Self {
        let (sharing, options) = (Sharing::OneForAll, Options::default());
        Self { role, shape, polarity, length, generator, sharing, width: None, options }
    }

    fn sharing(mut self, sharing: Sharing) -> Self {
        self.sharing = sharing;
        self
    }

    fn width(mut self, width: u32) -> Self {
        self.width = Some(width);
        self
    }

    fn lanes(mut self, lanes: usize) -> Self {
        self.options.lanes = Some(lanes);
        self
    }

    fn pipeline(mut self) -> Self {
        self.options.pipeline = Pipeline::Registers;
        self
    }

    fn class(mut self) -> Self {
        self.options.output = Output::Class;
        self
    }

    fn non_negative(mut self) -> Self {
        self.options.inputs = InputInterval::NonNegative;
        self
    }

    fn name(&self) -> String {
        let mut name = match self.shape {
            Shape::Dense(sizes) => {
                sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join("-")
            }
            Shape::Conv(channels, size, out) => format!("conv-{channels}x{size}x{size}-{out}"),
            Shape::Digits => "noise_aware".to_owned(),
        };
        let _ =
            write!(name, "-{}-{}-{}-{}", self.polarity, self.generator, self.length, self.sharing);
        if let Some(width) = self.width {
            let _ = write!(name, "-width{width}");
        }
        if let Some(lanes) = self.options.lanes {
            let _ = write!(name, "-lanes{lanes}");
        }
        if self.options.pipeline == Pipeline::Registers {
            name.push_str("-pipeline");
        }
        if self.options.inputs == InputInterval::NonNegative {
            name.push_str("-non-negative");
        }
        name
    }

    fn case(self) -> Result<Case, Box<dyn Error>> {
        let network = match self.shape {
            Shape::Dense(sizes) => dense(sizes, self.polarity)?,
            Shape::Conv(channels, size, out) => conv(channels, size, out, self.polarity)?,
            Shape::Digits => Network::digits_noise_aware()?,
        };
        let config = StreamConfig::new(self.length)
            .generator(self.generator.parse()?)
            .arithmetic(Arithmetic::Integer)
            .sharing(self.sharing);
        let config = match self.width {
            Some(width) => config.width(Width::new(width)?),
            None => config,
        };
        // Pixels are not negative.
        let polarity =
            if matches!(self.shape, Shape::Digits) { Polarity::Signed } else { self.polarity };
        let (name, role) = (self.name(), self.role);
        Ok(Case { name, role, network, config, options: self.options, polarity })
    }
}

/// A set of designs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Set {
    /// Circuits of streams.
    Streams,
    /// Binary circuits.
    Integers,
}

/// Returns all designs of a set.
pub(crate) fn all(set: Set) -> Result<Vec<Case>, Box<dyn Error>> {
    let plans = match set {
        Set::Streams => [fitted(), held_out()].concat(),
        Set::Integers => integers(),
    };
    plans.into_iter().map(Plan::case).collect()
}

fn integers() -> Vec<Plan> {
    use Polarity::Signed;
    use Shape::{Conv, Dense, Digits};
    use Use::{Fit, HeldOut};
    // The length of integers follows from their bits.
    let plan = |role, shape, generator| Plan::new(role, shape, Signed, 1, generator);
    vec![
        plan(Fit, Dense(&[16, 8]), "int8"),
        plan(Fit, Dense(&[20, 10]), "int4"),
        plan(Fit, Dense(&[32, 16]), "int6").lanes(4),
        plan(Fit, Dense(&[24, 12, 6]), "int8").pipeline(),
        plan(Fit, Dense(&[48, 10]), "int5").lanes(2),
        plan(Fit, Dense(&[12, 20]), "int3"),
        plan(Fit, Dense(&[64, 6]), "int7").non_negative(),
        plan(Fit, Dense(&[28, 14, 7]), "int6").non_negative(),
        plan(Fit, Conv(1, 6, 4), "int8"),
        plan(Fit, Conv(2, 6, 3), "int4").lanes(1),
        plan(Fit, Digits, "int8"),
        plan(Fit, Digits, "int4"),
        plan(HeldOut, Dense(&[40, 12]), "int8").lanes(3),
        plan(HeldOut, Dense(&[20, 20, 5]), "int6"),
        plan(HeldOut, Dense(&[36, 9]), "int4").non_negative(),
        plan(HeldOut, Conv(3, 6, 2), "int5"),
        plan(HeldOut, Digits, "int6"),
    ]
}

fn fitted() -> Vec<Plan> {
    use Polarity::{Bipolar, Signed, Unipolar};
    use Shape::{Conv, Dense, Digits};
    use Sharing::{OnePerInput as Input, OnePerStream as Stream};
    let plan = |shape, polarity, length, generator| {
        Plan::new(Use::Fit, shape, polarity, length, generator)
    };
    vec![
        plan(Dense(&[12, 6]), Unipolar, 64, "lfsr"),
        plan(Dense(&[24, 10, 4]), Unipolar, 16, "lfsr"),
        plan(Dense(&[20, 12, 6]), Unipolar, 128, "lfsr"),
        plan(Dense(&[16, 8]), Bipolar, 64, "sobol"),
        plan(Dense(&[24, 10]), Bipolar, 256, "lfsr").class(),
        plan(Dense(&[28, 12, 6]), Bipolar, 64, "sobol"),
        plan(Dense(&[16, 8, 4]), Signed, 64, "lfsr"),
        plan(Dense(&[32, 6]), Signed, 256, "sobol"),
        plan(Dense(&[28, 10, 5]), Signed, 128, "sobol"),
        plan(Dense(&[20, 8]), Signed, 1024, "lfsr"),
        plan(Dense(&[16, 8]), Signed, 100, "vdc"),
        plan(Dense(&[24, 8]), Signed, 64, "vdc"),
        plan(Dense(&[16, 6]), Signed, 64, "halton"),
        plan(Dense(&[14, 8]), Unipolar, 200, "halton"),
        plan(Dense(&[18, 8]), Signed, 100, "halton"),
        plan(Dense(&[16, 8, 4]), Signed, 64, "lfsr").sharing(Input),
        plan(Dense(&[10, 8]), Signed, 64, "sobol").sharing(Stream),
        plan(Dense(&[12, 8]), Signed, 64, "lfsr").sharing(Stream),
        plan(Dense(&[16, 16, 4]), Signed, 64, "lfsr").lanes(4),
        plan(Dense(&[16, 16]), Unipolar, 64, "lfsr").lanes(2),
        plan(Dense(&[24, 12]), Signed, 64, "sobol").lanes(1),
        plan(Dense(&[20, 20, 5]), Signed, 64, "lfsr").lanes(4),
        plan(Dense(&[24, 16]), Bipolar, 64, "lfsr").lanes(2),
        plan(Dense(&[16, 8]), Signed, 64, "lfsr").pipeline(),
        plan(Dense(&[20, 10]), Signed, 64, "lfsr").pipeline().class(),
        plan(Dense(&[36, 14, 7]), Signed, 64, "sobol"),
        plan(Dense(&[30, 9]), Unipolar, 256, "lfsr"),
        plan(Dense(&[22, 18, 6]), Bipolar, 100, "lfsr").lanes(3),
        plan(Dense(&[26, 10]), Signed, 48, "halton"),
        plan(Dense(&[15, 10, 5]), Signed, 32, "lfsr").sharing(Input).class(),
        plan(Dense(&[44, 12]), Signed, 128, "vdc").pipeline(),
        plan(Conv(1, 6, 4), Signed, 64, "lfsr"),
        plan(Conv(1, 6, 2), Bipolar, 64, "lfsr").lanes(1),
        plan(Conv(1, 8, 4), Signed, 64, "lfsr").lanes(2),
        plan(Digits, Bipolar, 64, "lfsr"),
        plan(Dense(&[128, 24]), Unipolar, 64, "lfsr"),
        plan(Dense(&[24, 128]), Unipolar, 16, "lfsr"),
        plan(Dense(&[256, 8]), Signed, 64, "sobol"),
        plan(Dense(&[12, 160]), Signed, 32, "lfsr"),
        plan(Dense(&[200, 5]), Bipolar, 32, "halton"),
        plan(Dense(&[40, 32]), Signed, 64, "lfsr").lanes(8),
        plan(Dense(&[32, 24]), Bipolar, 64, "vdc").lanes(8),
        plan(Dense(&[24, 12]), Bipolar, 128, "lfsr").pipeline(),
        plan(Dense(&[24, 12]), Unipolar, 32, "sobol").lanes(4).pipeline(),
        plan(Dense(&[24, 12]), Bipolar, 64, "ramp"),
        plan(Dense(&[32, 8]), Signed, 64, "lfsr").width(7).non_negative(),
        plan(Dense(&[20, 10]), Unipolar, 128, "sobol").width(12),
        plan(Dense(&[12, 8]), Bipolar, 64, "lfsr").sharing(Input),
        plan(Conv(3, 6, 5), Bipolar, 16, "sobol"),
        plan(Conv(4, 6, 8), Unipolar, 16, "vdc").lanes(4),
    ]
}

fn held_out() -> Vec<Plan> {
    use Polarity::{Bipolar, Signed, Unipolar};
    use Shape::{Conv, Dense};
    use Sharing::OnePerInput as Input;
    let plan = |shape, polarity, length, generator| {
        Plan::new(Use::HeldOut, shape, polarity, length, generator)
    };
    vec![
        plan(Dense(&[160, 12]), Unipolar, 64, "sobol"),
        plan(Dense(&[24, 96]), Bipolar, 32, "lfsr"),
        plan(Dense(&[64, 32, 10]), Signed, 48, "lfsr"),
        plan(Dense(&[40, 24]), Signed, 96, "sobol").lanes(6),
        plan(Dense(&[36, 14]), Bipolar, 64, "halton"),
        plan(Dense(&[56, 12]), Signed, 128, "vdc"),
        plan(Dense(&[22, 12]), Unipolar, 48, "lfsr").sharing(Input),
        plan(Dense(&[32, 10]), Bipolar, 64, "lfsr").pipeline().class(),
        plan(Dense(&[44, 12]), Signed, 100, "lfsr").non_negative(),
        plan(Conv(2, 6, 6), Signed, 24, "lfsr"),
        plan(Conv(3, 6, 4), Bipolar, 32, "sobol").lanes(2),
    ]
}
