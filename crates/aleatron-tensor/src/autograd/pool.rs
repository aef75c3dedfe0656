//! Gradients of pooling.

use super::node::attach;
use crate::cpu;
use crate::dtype::DType;
use crate::error::Result;
use crate::gpu;
use crate::ops::pool::{Pool, Windows};
use crate::tensor::{DeviceView, Tensor};

/// Records a pooling. The image is retained for the largest elements only.
pub(crate) fn pool(op: &'static str, x: &Tensor, windows: Windows, output: &Tensor) -> Tensor {
    let image = match windows.pool {
        Pool::Max => Some(x.detach()),
        Pool::Average(_) => None,
    };
    attach(op, &[x], output, move |g| Ok(vec![Some(gradient(g, &windows, image.as_ref())?)]))
}

fn gradient(g: &Tensor, windows: &Windows, image: Option<&Tensor>) -> Result<Tensor> {
    if g.is_empty() || windows.shape.contains(&0) {
        return Tensor::zeros(&windows.shape, g.dtype(), &g.device());
    }
    match g.device_view()? {
        DeviceView::Cpu(_) => {
            let floats = |x: &Tensor| x.cast(DType::F32)?.contiguous()?.host_view();
            let image = image.map(floats).transpose()?;
            let storage = cpu::pool_gradient::run(windows, &floats(g)?, image.as_ref())?;
            Tensor::from_cpu(storage, &windows.shape)
        }
        DeviceView::Gpu(device, view) => {
            let image = image.map(Tensor::gpu_view).transpose()?;
            let data = gpu::pool_gradient::launch(&device, windows, &view, image.as_ref())?;
            Tensor::from_gpu_data(&device, data, &windows.shape)
        }
    }
}
