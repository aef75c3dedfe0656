//! Rotary positions: the frequencies of each scaling variant, and tables of their sines and
//! cosines.

use std::f64::consts::PI;

use crate::error::{Error, Result};
use crate::options::Options;

/// The scaling of the frequencies of rotary positions for contexts longer than those of the
/// training.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum RopeScaling {
    /// No scaling.
    None,
    /// One factor for all frequencies.
    Linear {
        /// The factor.
        factor: f64,
    },
    /// No scaling up to the positions of the training; longer sequences are errors, since its
    /// cached keys would have to be rotated again.
    Dynamic,
    /// A factor for low frequencies, none for high ones, and a transition between them, as in Llama
    /// 3.
    Llama3 {
        /// The factor of the low frequencies.
        factor: f64,
        /// The end of low frequencies, in turns over the training's context.
        low_freq_factor: f64,
        /// The beginning of high frequencies.
        high_freq_factor: f64,
        /// The context of the training.
        original_positions: f64,
    },
    /// A ramp between stretched and unstretched dimensions, with scaled attention (YaRN).
    Yarn {
        /// The factor of the low frequencies.
        factor: f64,
        /// The turns at which the ramp begins.
        beta_fast: f64,
        /// The turns at which it ends.
        beta_slow: f64,
        /// The context of the training.
        original_positions: f64,
        /// The factor of sines and cosines.
        attention_factor: f64,
    },
}

/// Rotary positions.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Rope {
    /// The base of the frequencies.
    pub theta: f64,
    /// The scaling variant.
    pub scaling: RopeScaling,
}

impl Rope {
    /// Reads the options of a configuration, in the form of either generation of files.
    pub(crate) fn read(options: &Options<'_>, max_positions: usize) -> Result<Self> {
        let (old_theta, old_scaling) =
            (options.number("rope_theta")?, options.object("rope_scaling")?);
        let parameters = options.object("rope_parameters")?;
        if let (Some(_), Some(value)) = (parameters, old_scaling.and(options.get("rope_scaling"))) {
            let option = "rope_scaling".to_owned();
            let reason = "cannot be combined with rope_parameters".to_owned();
            return Err(Error::BadOption { option, value: value.to_string(), reason });
        }
        let described = parameters.or(old_scaling);
        let Some(map) = described else {
            return Ok(Self {
                theta: positive("rope_theta", old_theta.unwrap_or(10_000.0))?,
                scaling: RopeScaling::None,
            });
        };
        let rope = Options::new(map, "rope_parameters.");
        let own_theta = rope.number("rope_theta")?;
        if let (Some(own), Some(old)) = (own_theta, old_theta)
            && own != old
        {
            return Err(bad("rope_theta", old, &format!("is not the {own} of rope_parameters")));
        }
        let theta = positive("rope_theta", own_theta.or(old_theta).unwrap_or(10_000.0))?;
        rope.only("partial_rotary_factor", |value| value.as_f64() == Some(1.0))?;
        let kind = match rope.text("rope_type")? {
            Some(kind) => Some(kind),
            None => rope.text("type")?,
        };
        rope.ignore(&["type"]);
        let original = || -> Result<f64> {
            let original = rope.number("original_max_position_embeddings")?;
            positive("original_max_position_embeddings", original.unwrap_or(max_positions as f64))
        };
        let factor = || -> Result<f64> { positive("factor", rope.required_number("factor")?) };
        let scaling = match kind.unwrap_or("default") {
            "default" => RopeScaling::None,
            "linear" => RopeScaling::Linear { factor: factor()? },
            "dynamic" => {
                rope.ignore(&["factor", "original_max_position_embeddings"]);
                RopeScaling::Dynamic
            }
            "llama3" => {
                let low_freq_factor =
                    positive("low_freq_factor", rope.required_number("low_freq_factor")?)?;
                let high_freq_factor = rope.required_number("high_freq_factor")?;
                if high_freq_factor <= low_freq_factor {
                    return Err(bad(
                        "high_freq_factor",
                        high_freq_factor,
                        "is not above low_freq_factor",
                    ));
                }
                let (factor, original_positions) = (factor()?, original()?);
                RopeScaling::Llama3 {
                    factor,
                    low_freq_factor,
                    high_freq_factor,
                    original_positions,
                }
            }
            "yarn" => {
                let factor = factor()?;
                rope.only("truncate", |value| value.as_bool() == Some(true))?;
                let mscale = |m: f64| if factor <= 1.0 { 1.0 } else { 0.1 * m * factor.ln() + 1.0 };
                let (m, all) = (rope.number("mscale")?, rope.number("mscale_all_dim")?);
                let attention_factor = match (rope.number("attention_factor")?, m, all) {
                    (Some(given), ..) => given,
                    (None, Some(m), Some(all)) if m != 0.0 && all != 0.0 => mscale(m) / mscale(all),
                    _ => mscale(1.0),
                };
                RopeScaling::Yarn {
                    factor,
                    beta_fast: positive("beta_fast", rope.number("beta_fast")?.unwrap_or(32.0))?,
                    beta_slow: positive("beta_slow", rope.number("beta_slow")?.unwrap_or(1.0))?,
                    original_positions: original()?,
                    attention_factor,
                }
            }
            unknown => return Err(rope.fault("rope_type", &unknown.into())),
        };
        rope.finish()?;
        Ok(Self { theta, scaling })
    }

    /// Returns the angle per position of each pair of dimensions, as the f32 that Hugging Face
    /// uses.
    #[must_use]
    pub fn frequencies(&self, head_dim: usize) -> Vec<f32> {
        let dims = head_dim as f64;
        let plain = |i: usize| self.theta.powf(-2.0 * i as f64 / dims);
        let frequency = |i: usize| match self.scaling {
            RopeScaling::None | RopeScaling::Dynamic => plain(i),
            RopeScaling::Linear { factor } => plain(i) / factor,
            RopeScaling::Llama3 {
                factor,
                low_freq_factor,
                high_freq_factor,
                original_positions,
            } => {
                let turns = original_positions * plain(i) / (2.0 * PI);
                if turns < low_freq_factor {
                    plain(i) / factor
                } else if turns > high_freq_factor {
                    plain(i)
                } else {
                    let smooth = (turns - low_freq_factor) / (high_freq_factor - low_freq_factor);
                    (1.0 - smooth) * plain(i) / factor + smooth * plain(i)
                }
            }
            RopeScaling::Yarn { factor, beta_fast, beta_slow, original_positions, .. } => {
                // The dimension with this number of turns over the training's context.
                let dimension = |turns: f64| {
                    dims * (original_positions / (turns * 2.0 * PI)).ln() / (2.0 * self.theta.ln())
                };
                let low = dimension(beta_fast).floor().max(0.0);
                let high = dimension(beta_slow).ceil().min(dims - 1.0);
                let width = if low == high { 0.001 } else { high - low };
                let ramp = ((i as f64 - low) / width).clamp(0.0, 1.0);
                plain(i) / factor * ramp + plain(i) * (1.0 - ramp)
            }
        };
        (0..head_dim / 2).map(|i| frequency(i) as f32).collect()
    }

    fn attention_factor(&self) -> f64 {
        match self.scaling {
            RopeScaling::Yarn { attention_factor, .. } => attention_factor,
            _ => 1.0,
        }
    }

    /// Returns the cosine and sine of each pair of dimensions at positions `first` to `first +
    /// count`, interleaved.
    #[must_use]
    pub fn table(&self, head_dim: usize, first: usize, count: usize) -> Vec<f32> {
        let (frequencies, factor) = (self.frequencies(head_dim), self.attention_factor());
        let mut table = Vec::with_capacity(count * head_dim);
        for position in first..first + count {
            for frequency in &frequencies {
                // The angle is rounded to f32, as everywhere else; its cosine is exact.
                let angle = f64::from(position as f32 * frequency);
                table.extend([(angle.cos() * factor) as f32, (angle.sin() * factor) as f32]);
            }
        }
        table
    }
}

fn bad(option: &str, value: f64, reason: &str) -> Error {
    Error::BadOption {
        option: option.to_owned(),
        value: value.to_string(),
        reason: reason.to_owned(),
    }
}

fn positive(option: &str, value: f64) -> Result<f64> {
    if value > 0.0 { Ok(value) } else { Err(bad(option, value, "is not above 0")) }
}
