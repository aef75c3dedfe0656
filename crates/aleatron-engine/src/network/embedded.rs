//! The networks for the embedded digits.

use super::Network;
use crate::Result;

impl Network {
    /// Returns the noise-aware network 64-64-10 for the embedded digits.
    ///
    /// # Errors
    /// Never fails for the embedded file.
    pub fn digits_noise_aware() -> Result<Self> {
        Self::from_onnx(include_bytes!("../../assets/digits/noise_aware.onnx"))
    }

    /// Returns the plainly trained network 64-64-10 for the embedded digits.
    ///
    /// # Errors
    /// Never fails for the embedded file.
    pub fn digits_plain() -> Result<Self> {
        Self::from_onnx(include_bytes!("../../assets/digits/plain.onnx"))
    }

    /// Returns the convolutional network for the embedded digits, as signed streams: 8 and 16
    /// channels of 3 x 3 kernels with pools, and a dense layer.
    ///
    /// ```
    /// use aleatron_engine::network::Network;
    /// let network = Network::digits_cnn()?;
    /// assert_eq!((network.input_shape(), network.layers().len()), (vec![1, 8, 8], 3));
    /// # Ok::<(), aleatron_engine::Error>(())
    /// ```
    ///
    /// # Errors
    /// Never fails for the embedded file.
    pub fn digits_cnn() -> Result<Self> {
        Self::from_onnx(include_bytes!("../../assets/digits/cnn.onnx"))
    }
}
