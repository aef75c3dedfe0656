//! The interface of `gpu/` in builds without the cargo feature `gpu`.
//!
//! No value of [`GpuDevice`] can be created here, so the functions that take one are never called:
//! the compiler checks that their bodies are unreachable. Operations therefore match on devices in
//! the same way in every build, and enabling the feature only adds items.

use std::fmt;
use std::sync::Arc;
use std::task::{Context, Poll};

use crate::dtype::{Constant, DType, Element};
use crate::error::{Error, Result};
use crate::expr::Expr;
use crate::layout::Layout;
use crate::op::Reducer;
use crate::ops::Order;
use crate::ops::attention::Sizes;
use crate::ops::conv::Geometry;
use crate::ops::gather::GpuJob;
use crate::ops::normalize::Normal;
use crate::ops::pool::Windows;
use crate::ops::resize::Taps;
use crate::storage::CpuStorage;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Never {}

/// A GPU that holds tensors. No value exists in this build: it was compiled without the cargo
/// feature `gpu`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuDevice(Never);

impl GpuDevice {
    pub(crate) fn named(_: Option<&str>) -> Result<Self> {
        Err(Error::NoGpuSupport)
    }

    pub(crate) fn supports(&self, _: DType) -> bool {
        match self.0 {}
    }

    pub(crate) fn finish(&self) -> Result<()> {
        match self.0 {}
    }
}

impl fmt::Display for GpuDevice {
    fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {}
    }
}

/// Elements on a GPU. No value exists in this build: it was compiled without the cargo feature
/// `gpu`.
#[derive(Debug)]
pub struct GpuStorage(Never);

impl GpuStorage {
    pub(crate) fn ready(device: &GpuDevice, _: GpuData) -> Self {
        match device.0 {}
    }

    pub(crate) fn pending(device: &GpuDevice, _: Expr<GpuView>, _: &[usize]) -> Result<Self> {
        match device.0 {}
    }

    pub(crate) fn device(&self) -> &GpuDevice {
        match self.0 {}
    }

    pub(crate) fn dtype(&self) -> DType {
        match self.0 {}
    }

    pub(crate) fn len(&self) -> usize {
        match self.0 {}
    }

    pub(crate) fn data(&self) -> Result<Arc<GpuData>> {
        match self.0 {}
    }

    pub(crate) fn share(&self, _: &Layout) -> Option<Expr<GpuView>> {
        match self.0 {}
    }
}

#[derive(Debug)]
pub(crate) struct GpuData {
    pub(crate) len: usize,
    _never: Never,
}

#[derive(Debug, Clone)]
pub(crate) struct GpuView {
    pub(crate) data: Arc<GpuData>,
    pub(crate) layout: Layout,
}

impl PartialEq for GpuView {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.data, &other.data) && self.layout == other.layout
    }
}

#[derive(Debug)]
pub(crate) struct GpuRead(Never);

impl GpuRead {
    pub(crate) fn start(gpu: GpuDevice, _: GpuView) -> Result<Self> {
        match gpu.0 {}
    }

    pub(crate) fn wait<T: Element>(self) -> Result<Vec<T>> {
        match self.0 {}
    }

    pub(crate) fn is_ready(&self) -> bool {
        match self.0 {}
    }

    pub(crate) fn poll<T: Element>(&mut self, _: &mut Context<'_>) -> Poll<Result<Vec<T>>> {
        match self.0 {}
    }
}

pub(crate) fn upload(gpu: &GpuDevice, _: &CpuStorage) -> Result<GpuData> {
    match gpu.0 {}
}

/// Declares the module of an operation, whose kernels no device can launch.
macro_rules! launch {
    ($($operation:ident($($argument:ty),*) -> $result:ty;)*) => {$(
        pub(crate) mod $operation {
            #[allow(unused_imports, reason = "each operation uses some of the types")]
            use super::*;

            #[allow(clippy::too_many_arguments, reason = "the signature is that of `gpu/`")]
            pub(crate) fn launch(device: &GpuDevice, $(_: $argument),*) -> Result<$result> {
                match device.0 {}
            }
        }
    )*};
}

launch! {
    assemble(&[(GpuView, Vec<usize>)], &[usize], Constant) -> GpuData;
    attention(&Sizes, [&GpuView; 3], Option<&GpuView>) -> GpuData;
    conv(&Geometry, &GpuView, &GpuView, Option<&GpuView>, DType, matmul::MatmulPlan) -> GpuData;
    gather(&GpuJob<'_>) -> GpuData;
    normalize(&Expr<GpuView>, [usize; 2], Normal, &[GpuView], f32, DType) -> GpuData;
    pool(&Windows, &GpuView) -> GpuData;
    pool_gradient(&Windows, &GpuView, Option<&GpuView>) -> GpuData;
    reduce(&Expr<GpuView>, &[usize], &[usize], &Reducer) -> GpuData;
    resize(&GpuView, usize, &Taps, &GpuView, &[usize], DType) -> GpuData;
    scan(&GpuView, usize, &Reducer) -> GpuData;
    sort(&GpuView, usize, Order) -> (GpuData, usize);
}

pub(crate) mod matmul {
    use super::*;

    /// A plan of a product.
    #[derive(Debug, Clone, Copy)]
    pub(crate) enum MatmulPlan {
        Automatic,
    }

    pub(crate) fn launch(
        device: &GpuDevice,
        _: &GpuView,
        _: &GpuView,
        _: DType,
        _: MatmulPlan,
    ) -> Result<GpuData> {
        match device.0 {}
    }
}
