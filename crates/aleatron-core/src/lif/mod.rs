//! Leaky integrate-and-fire neurons: [`fixed`] in the integers of a chip, [`float`] in f32 for
//! training.

pub mod fixed;
pub mod float;

pub use fixed::{FixedPointLif, LifDrive, LifParams, LifTrace};
pub use float::{LifLayer, LifLayerParams};
