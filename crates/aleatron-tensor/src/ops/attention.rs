//! Scaled dot-product attention.

use crate::autograd::{self, is_recorded};
use crate::cpu;
use crate::dtype::{DType, Kind};
use crate::error::{Error, Limit, RankNeeded, Result};
use crate::gpu::attention as gpu;
use crate::layout::{broadcast_shapes, elements};
use crate::tensor::Tensor;
use crate::trace::report;

use super::conv::promote;

/// The keys that a query may attend to, by their position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Causality {
    /// All keys.
    #[default]
    None,
    /// Query i attends to keys up to i: both sequences begin together.
    FromFirst,
    /// The last query attends to all keys, the one before it to all but the last, and so on: both
    /// sequences end together.
    FromLast,
}

/// Options of attention.
#[derive(Debug, Clone, Copy, Default)]
pub struct AttentionOptions<'a> {
    /// A mask of floats is added to the scores; in a mask of booleans, false hides a key. It
    /// broadcasts to `[…, queries, keys]`.
    pub mask: Option<&'a Tensor>,
    /// The keys that a query may attend to, by their position.
    pub causality: Causality,
    /// The factor of the scores; `None` for 1 / sqrt of the length of a query.
    pub scale: Option<f64>,
}

/// The longest supported value on a GPU: sums of its elements are in registers.
pub(crate) const MAX_VALUE_LENGTH: usize = 512;

/// The sizes of an attention.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sizes {
    pub(crate) queries: usize,
    pub(crate) keys: usize,
    /// The length of queries and keys, and that of values.
    pub(crate) lengths: [usize; 2],
    /// Query i attends to key j if j <= i + `sees_past`.
    pub(crate) sees_past: i64,
    pub(crate) scale: f32,
}

const OP: &str = "attention";

impl Tensor {
    /// Computes attention of the queries `[…, l, e]` in this tensor, to keys `[…, s, e]` with
    /// values `[…, s, v]`: softmax(scale q kᵀ + mask) v. Axes before the last two broadcast, so
    /// heads may share keys. The scores are never stored as a whole.
    ///
    /// Sums are accumulated in 32 bits. The result of a query without keys is zero.
    ///
    /// ```
    /// use aleatron_tensor::{AttentionOptions, DType, Device, Tensor};
    /// let q = Tensor::zeros(&[1, 4], DType::F32, &Device::Cpu)?;
    /// let k = Tensor::ones(&[2, 4], DType::F32, &Device::Cpu)?;
    /// let v = Tensor::from_slice(&[1.0f32, 3.0], &[2, 1], &Device::Cpu)?;
    /// assert_eq!(q.attention(&k, &v, &AttentionOptions::default())?.to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), aleatron_tensor::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Rank`] below rank 2, [`Error::Shapes`] if the shapes are not compatible,
    /// [`Error::DType`] for other types than floats, [`Error::TooLarge`] on a GPU for values longer
    /// than 512, [`Error::Devices`] for two devices, [`Error::Memory`] if memory is exhausted.
    pub fn attention(
        &self,
        keys: &Self,
        values: &Self,
        options: &AttentionOptions<'_>,
    ) -> Result<Self> {
        if is_recorded([Some(self), Some(keys), Some(values), options.mask].into_iter().flatten()) {
            return autograd::attention(self, keys, values, options);
        }
        let dtype = promote(OP, promote(OP, self.dtype(), keys.dtype())?, values.dtype())?;
        for tensor in [self, keys, values] {
            self.check_device(OP, tensor)?;
            if tensor.rank() < 2 {
                let shape = tensor.shape().to_vec();
                return Err(Error::Rank { op: OP, expected: RankNeeded::AtLeast(2), shape });
            }
        }
        let sides =
            |tensor: &Self| [tensor.shape()[tensor.rank() - 2], tensor.shape()[tensor.rank() - 1]];
        let ([queries, length], [key_count, key_length], [value_count, value_length]) =
            (sides(self), sides(keys), sides(values));
        if length != key_length {
            return Err(Error::shapes(OP, self.shape(), keys.shape()));
        }
        if key_count != value_count {
            return Err(Error::shapes(OP, keys.shape(), values.shape()));
        }
        let outer = |tensor: &Self| tensor.shape()[..tensor.rank() - 2].to_vec();
        let batch = broadcast_shapes(OP, &outer(self), &outer(keys))?;
        let batch = broadcast_shapes(OP, &batch, &outer(values))?;
        let over = |tensor: &Self| tensor.broadcast_to(&[&batch[..], &sides(tensor)].concat());
        let mask = match options.mask {
            Some(mask) => {
                self.check_device(OP, mask)?;
                let shape = [&batch[..], &[queries, key_count]].concat();
                let added = match mask.dtype().kind() {
                    // Hidden keys get minus infinity.
                    Kind::Bool => mask.where_(0.0, f64::NEG_INFINITY)?,
                    Kind::Float => mask.clone(),
                    Kind::Integer => {
                        return Err(Error::DType {
                            op: OP,
                            dtype: mask.dtype(),
                            expected: "floats or booleans",
                        });
                    }
                };
                Some(
                    added
                        .broadcast_to(&shape)
                        .map_err(|_| Error::shapes(OP, mask.shape(), &shape))?,
                )
            }
            None => None,
        };
        let scale = options.scale.unwrap_or(1.0 / (length.max(1) as f64).sqrt()) as f32;
        let sees_past = match options.causality {
            Causality::None => i64::from(i32::MAX),
            Causality::FromFirst => 0,
            Causality::FromLast => key_count as i64 - queries as i64,
        };
        let sizes =
            Sizes { queries, keys: key_count, lengths: [length, value_length], sees_past, scale };
        let shape = [&batch[..], &[queries, value_length]].concat();
        let device = self.device();
        if elements(&shape)? == 0 || key_count == 0 {
            return Ok(report(OP, Self::zeros(&shape, dtype, &device)?));
        }
        let result = if let crate::Device::Gpu(gpu_device) = &device {
            if value_length > MAX_VALUE_LENGTH {
                let (actual, limit) = (value_length as u128, MAX_VALUE_LENGTH as u128);
                return Err(Error::TooLarge { what: Limit::HeadLength, actual, limit });
            }
            let view = |tensor: &Self| over(tensor)?.gpu_view();
            let (q, k, v) = (view(self)?, view(keys)?, view(values)?);
            let mask = mask.as_ref().map(Self::gpu_view).transpose()?;
            let data = gpu::launch(gpu_device, &sizes, [&q, &k, &v], mask.as_ref())?;
            Self::from_gpu_data(gpu_device, data, &shape)?
        } else {
            // 16-bit floats become 32-bit ones before they are repeated.
            let floats = |tensor: &Self, shape: &[usize]| {
                tensor.cast(DType::F32)?.broadcast_to(shape)?.host_view()
            };
            let over = |tensor: &Self| floats(tensor, &[&batch[..], &sides(tensor)].concat());
            let (q, k, v) = (over(self)?, over(keys)?, over(values)?);
            let mask = mask.as_ref().map(|mask| floats(mask, mask.shape())).transpose()?;
            Self::from_cpu(cpu::attention::run(&sizes, [&q, &k, &v], mask.as_ref())?, &shape)?
        };
        Ok(report(OP, result.cast(dtype)?))
    }
}
