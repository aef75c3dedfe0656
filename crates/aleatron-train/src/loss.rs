//! Losses: measures of the distance between predictions and labels or targets.

use aleatron_tensor::{DType, Tensor};

use crate::{Error, Result};

/// The loss that training minimizes.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Loss {
    /// Cross entropy of softmax scores for labels, mean squared error for targets.
    #[default]
    Automatic,
    /// Cross entropy of softmax scores; of one score, of its sigmoid.
    CrossEntropy {
        /// The share of the probability that is spread evenly over all classes, in [0, 1).
        smoothing: f64,
    },
    /// Mean squared error.
    MeanSquared,
    /// Mean absolute error.
    MeanAbsolute,
    /// Squared error up to `delta`, absolute error beyond it.
    Huber {
        /// The error at which the loss becomes linear; positive.
        delta: f64,
    },
}

/// Computes the mean cross entropy of scores `[n, classes]` and labels `[n]` of type i32 or i64.
///
/// ```
/// use aleatron_tensor::{Device, Tensor};
/// use aleatron_train::loss::cross_entropy;
///
/// let scores = Tensor::from_slice(&[0.0f32, 0.0], &[1, 2], &Device::Cpu)?;
/// let labels = Tensor::from_slice(&[1i32], &[1], &Device::Cpu)?;
/// assert!((cross_entropy(&scores, &labels, 0.0)?.item::<f32>()? - 2.0f32.ln()).abs() < 1e-6);
/// # Ok::<(), aleatron_train::Error>(())
/// ```
///
/// # Errors
/// [`Error::Tensor`] for other shapes or types, and for labels outside the classes;
/// [`Error::Option`] for a smoothing outside [0, 1).
pub fn cross_entropy(scores: &Tensor, labels: &Tensor, smoothing: f64) -> Result<Tensor> {
    if !(0.0..1.0).contains(&smoothing) {
        return Err(Error::option(
            "label smoothing",
            smoothing,
            "it must be at least 0 and less than 1",
        ));
    }
    let log = scores.log_softmax(&[-1])?;
    let chosen = log.gather(-1, &labels.unsqueeze(-1)?)?.mean_all()?.neg()?;
    if smoothing == 0.0 {
        return Ok(chosen);
    }
    let spread = log.mean_all()?.neg()?;
    Ok(chosen.mul(1.0 - smoothing)?.add(&spread.mul(smoothing)?)?)
}

/// Computes the mean cross entropy of the sigmoid of scores and targets in [0, 1] of the same
/// shape.
///
/// # Errors
/// [`Error::Tensor`] for shapes that do not fit.
pub fn binary_cross_entropy(scores: &Tensor, targets: &Tensor) -> Result<Tensor> {
    // log(1 + exp(s)) - s t, in the form that neither overflows nor cancels.
    let soft = scores.maximum(0.0)?.add(&scores.abs()?.neg()?.exp()?.log1p()?)?;
    Ok(soft.sub(&scores.mul(targets)?)?.mean_all()?)
}

/// Computes the mean squared error.
///
/// # Errors
/// [`Error::Tensor`] for shapes that do not fit.
pub fn mean_squared(outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    Ok(outputs.sub(targets)?.square()?.mean_all()?)
}

/// Computes the mean absolute error.
///
/// # Errors
/// [`Error::Tensor`] for shapes that do not fit.
pub fn mean_absolute(outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
    Ok(outputs.sub(targets)?.abs()?.mean_all()?)
}

/// Computes the Huber loss: half the squared error up to `delta`, linear beyond it.
///
/// # Errors
/// [`Error::Tensor`] for shapes that do not fit, [`Error::Option`] for a `delta` that is not
/// positive.
pub fn huber(outputs: &Tensor, targets: &Tensor, delta: f64) -> Result<Tensor> {
    if !(delta > 0.0 && delta.is_finite()) {
        return Err(Error::option("delta of the Huber loss", delta, "it must be positive"));
    }
    let error = outputs.sub(targets)?.abs()?;
    let near = error.minimum(delta)?;
    // near^2 / 2 + delta (error - near)
    Ok(near.square()?.mul(0.5)?.add(&error.sub(&near)?.mul(delta)?)?.mean_all()?)
}

impl Loss {
    /// Checks the parameters.
    pub(crate) fn check(self) -> Result<()> {
        match self {
            Self::CrossEntropy { smoothing } if !(0.0..1.0).contains(&smoothing) => {
                Err(Error::option(
                    "label smoothing",
                    smoothing,
                    "it must be at least 0 and less than 1",
                ))
            }
            Self::Huber { delta } if !(delta > 0.0 && delta.is_finite()) => {
                Err(Error::option("delta of the Huber loss", delta, "it must be positive"))
            }
            _ => Ok(()),
        }
    }

    /// Computes the loss of scores `[n, outputs]` for labels.
    ///
    /// # Errors
    /// [`Error::Option`] for a loss that labels do not have, and as [`cross_entropy`].
    pub fn of_labels(self, scores: &Tensor, labels: &[usize]) -> Result<Tensor> {
        let smoothing = match self {
            Self::Automatic => 0.0,
            Self::CrossEntropy { smoothing } => smoothing,
            Self::MeanSquared | Self::MeanAbsolute | Self::Huber { .. } => {
                let expected =
                    "labels are trained with cross entropy; use it, or targets instead of labels";
                return Err(Error::option("loss", format!("{self:?}"), expected));
            }
        };
        let device = scores.device();
        if scores.shape().last() == Some(&1) {
            let targets: Vec<f32> =
                labels.iter().map(|&label| if label == 0 { 0.0 } else { 1.0 }).collect();
            let targets = Tensor::from_slice(&targets, scores.shape(), &device)?;
            return binary_cross_entropy(
                scores,
                &targets.mul(1.0 - smoothing)?.add(0.5 * smoothing)?,
            );
        }
        let narrow: Vec<i32> =
            labels.iter().map(|&label| i32::try_from(label).unwrap_or(i32::MAX)).collect();
        cross_entropy(scores, &Tensor::from_slice(&narrow, &[labels.len()], &device)?, smoothing)
    }

    /// Computes the loss of outputs for targets of the same shape.
    ///
    /// # Errors
    /// [`Error::Option`] for a loss that targets do not have, [`Error::Tensor`] for shapes that do
    /// not fit.
    pub fn of_targets(self, outputs: &Tensor, targets: &Tensor) -> Result<Tensor> {
        match self {
            Self::Automatic | Self::MeanSquared => mean_squared(outputs, targets),
            Self::MeanAbsolute => mean_absolute(outputs, targets),
            Self::Huber { delta } => huber(outputs, targets, delta),
            Self::CrossEntropy { .. } => {
                let expected = "targets are trained with mean-squared, mean-absolute or huber";
                Err(Error::option("loss", format!("{self:?}"), expected))
            }
        }
    }
}

/// Returns whether a tensor holds floating-point numbers that are all finite; it is read from its
/// device.
pub(crate) fn finite(tensor: &Tensor) -> Result<f64> {
    Ok(tensor.cast(DType::F32)?.item::<f32>()?.into())
}
