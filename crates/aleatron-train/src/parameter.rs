//! Parameters: the tensors that training changes.

use std::sync::{Arc, PoisonError, RwLock};

use aleatron_tensor::Tensor;

use crate::{Error, Result};

/// A tensor that training changes, shared between the model that reads it and the optimizer that
/// updates it.
///
/// ```
/// use aleatron_tensor::{DType, Device, Tensor};
/// use aleatron_train::Parameter;
///
/// let weight = Parameter::new(&Tensor::ones(&[2], DType::F32, &Device::Cpu)?)?;
/// weight.tensor().mul(3.0)?.sum_all()?.backward()?;
/// assert_eq!(weight.grad().unwrap().to_vec::<f32>()?, [3.0, 3.0]);
/// # Ok::<(), aleatron_train::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Parameter(Arc<RwLock<Tensor>>);

impl Parameter {
    /// Creates a parameter with these elements.
    ///
    /// # Errors
    /// [`Error::Tensor`] for elements other than floating-point numbers.
    pub fn new(value: &Tensor) -> Result<Self> {
        Ok(Self(Arc::new(RwLock::new(value.detach().requires_grad()?))))
    }

    /// Returns the tensor that gradients accumulate in.
    #[must_use]
    pub fn tensor(&self) -> Tensor {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the gradient that has accumulated since the last update or [`Self::zero_grad`].
    #[must_use]
    pub fn grad(&self) -> Option<Tensor> {
        self.tensor().grad()
    }

    /// Removes the gradient.
    pub fn zero_grad(&self) {
        self.tensor().zero_grad();
    }

    /// Replaces the gradient.
    ///
    /// # Errors
    /// [`Error::Tensor`] for another shape, type or device.
    pub fn set_grad(&self, gradient: &Tensor) -> Result<()> {
        let own = self.tensor();
        own.zero_grad();
        // The gradient of a leaf with respect to itself is the incoming gradient.
        Ok(own.backward_with(gradient)?)
    }

    /// Replaces the elements; the gradient is removed.
    ///
    /// # Errors
    /// [`Error::State`] for another shape, type or device.
    pub fn set(&self, value: &Tensor) -> Result<()> {
        let mut own = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let is_same = own.shape() == value.shape() && own.dtype() == value.dtype();
        if !is_same || own.device() != value.device() {
            let reason = format!(
                "expected {} {:?} on {}, got {} {:?} on {}",
                own.dtype(),
                own.shape(),
                own.device(),
                value.dtype(),
                value.shape(),
                value.device()
            );
            return Err(Error::State { place: "parameter".to_owned(), reason });
        }
        *own = value.detach().requires_grad()?;
        Ok(())
    }
}
