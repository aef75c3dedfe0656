//! Every name of trueno's documented GPU module, with another import, and its results.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use aleatron_tensor::Error;
use aleatron_tensor::compat::trueno::runtime::{block_on, sync_available};
use aleatron_tensor::compat::trueno::{
    BufferId, GpuBackend, GpuCommandBatch, GpuDevice, GpuDevicePool, GpuMatmulCache, MaxOp,
    MemoryLayout, MinOp, PartitionView, PipelineCache, ReduceOp, SumOp, TILE_SIZE, TensorView,
    TileInfo, shaders, tiled_max_2d, tiled_min_2d, tiled_reduce_2d, tiled_reduce_partial,
    tiled_sum_2d,
};

/// Every test uses the GPU that the environment names. No adapter is a failure: these tests must
/// run.
fn named_adapter() {
    let is_named =
        ["SC_GPU_ADAPTER", "ALEATRON_GPU"].iter().any(|name| std::env::var_os(name).is_some());
    assert!(is_named, "name an adapter: SC_GPU_ADAPTER=llvmpipe");
    assert!(GpuDevice::is_available());
}

#[test]
fn devices_are_listed_and_opened() {
    named_adapter();
    let device = GpuDevice::new().unwrap();
    assert_eq!(block_on(GpuDevice::new_async()).unwrap(), device);
    assert!(
        block_on(GpuDevice::is_available_async()) && GpuBackend::is_available() && sync_available()
    );
    let adapters = GpuDevice::list_adapters();
    assert_eq!(block_on(GpuDevice::list_adapters_async()), adapters);
    let (index, name, interface) =
        adapters.into_iter().find(|(_, name, _)| name == device.name()).unwrap();
    assert_eq!(GpuDevice::new_with_adapter_index(index).unwrap().name(), name);
    assert!(!interface.is_empty());
    assert!(block_on(GpuDevice::new_with_adapter_index_async(9999)).is_err());
    let pool = GpuDevicePool::all().unwrap();
    assert!(!pool.is_empty() && pool.iter().count() == pool.len());
    assert_eq!(pool.get(0).unwrap().name(), device.name());
}

#[test]
fn backend_takes_slices_and_returns_vectors() {
    named_adapter();
    let mut backend = GpuBackend::new();
    assert_eq!(backend.vec_add(&[1.0, 2.0], &[3.0, 4.0]).unwrap(), [4.0, 6.0]);
    assert!(backend.vec_add(&[1.0, 2.0], &[3.0]).is_err());
    assert_eq!(backend.dot(&vec![1.0; 1000], &vec![2.0; 1000]).unwrap(), 2000.0);
    assert_eq!(backend.relu(&[]).unwrap(), [0f32; 0]);
    assert_eq!(backend.leaky_relu(&[-2.0, 2.0], 0.5).unwrap(), [-1.0, 2.0]);
    assert_eq!(backend.elu(&[0.0, 2.0], 0.5).unwrap(), [0.0, 2.0]);
    assert_eq!(backend.clip(&[-2.0, 0.5, 2.0], -1.0, 1.0).unwrap(), [-1.0, 0.5, 1.0]);
    assert_eq!(backend.sigmoid(&[0.0]).unwrap(), [0.5]);
    assert_eq!(
        (backend.swish(&[0.0]).unwrap(), backend.gelu(&[0.0]).unwrap()),
        (vec![0.0], vec![0.0])
    );
    assert_eq!(backend.log_softmax(&[3.0]).unwrap(), [0.0]);
    assert_eq!(backend.matmul(&[1.0, 2.0], &[3.0, 4.0], 1, 2, 1).unwrap(), [11.0]);
    assert!(matches!(backend.matmul(&[1.0], &[3.0, 4.0], 1, 2, 1), Err(Error::Elements { .. })));
    // Relative accuracy near 0.
    let tiny = backend.tanh(&[3e-8, 1e-5]).unwrap();
    assert!(
        (f64::from(tiny[0]) / 3e-8 - 1.0).abs() < 1e-6
            && (f64::from(tiny[1]) / 1e-5 - 1.0).abs() < 1e-6
    );
    assert_eq!(backend.softmax(&[1.0, 1.0, 1.0, 1.0]).unwrap(), [0.25; 4]);
    assert_eq!(
        backend.convolve2d(&[1.0, 2.0, 3.0, 4.0], &[1.0, 1.0], [2, 2], [1, 2]).unwrap(),
        [3.0, 7.0]
    );
    let data: Vec<f32> = (0..35).map(|x| x as f32).collect();
    assert_eq!(backend.tiled_sum_2d_gpu(&data, 7, 5).unwrap(), 595.0);
    assert_eq!(backend.tiled_min_2d_gpu(&data, 7, 5).unwrap(), 0.0);
    assert_eq!(backend.tiled_max_2d_gpu(&[f32::NEG_INFINITY; 4], 2, 2).unwrap(), f32::NEG_INFINITY);
    let mut own = GpuBackend::with_device(&GpuDevice::new().unwrap());
    assert_eq!(own.relu(&[-1.0, 1.0]).unwrap(), [0.0, 1.0]);
}

#[test]
fn batches_are_awaited_and_share_pipelines() {
    named_adapter();
    let device = GpuDevice::new().unwrap();
    let mut cache = PipelineCache::new();
    assert!(cache.is_empty());
    let run = |cache: &mut PipelineCache| {
        let mut batch = GpuCommandBatch::new(device.clone());
        let x: BufferId = batch.upload(&[1.0f32, -2.0, 3.0]).unwrap();
        let y = batch.relu(x).unwrap();
        let z = batch.scale(y, 2.0).unwrap();
        assert_eq!((batch.num_operations(), batch.num_buffers()), (2, 3));
        block_on(batch.execute_with_cache(cache)).unwrap();
        block_on(batch.read(z)).unwrap()
    };
    assert_eq!(run(&mut cache), [2.0, 0.0, 6.0]);
    let compiled = cache.len();
    assert!(compiled > 0);
    assert_eq!(run(&mut cache), [2.0, 0.0, 6.0]);
    let mut batch = GpuCommandBatch::new(device.clone());
    // More elements than one workgroup processes.
    let ones = batch.upload(&vec![1.0f32; 100_000]).unwrap();
    let dot = batch.dot(ones, ones).unwrap();
    block_on(batch.execute()).unwrap();
    assert_eq!(block_on(batch.read(dot)).unwrap(), [100_000.0]);
    // Handles of another batch are rejected.
    assert!(matches!(GpuCommandBatch::new(device).relu(ones), Err(Error::Handle { .. })));
}

#[test]
fn cached_weights_are_multiplied() {
    named_adapter();
    let mut cache = GpuMatmulCache::new(&GpuDevice::new().unwrap());
    cache.upload_weight("w", &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0], 3, 2).unwrap();
    assert_eq!((cache.weight_count(), cache.weight_bytes()), (1, 24));
    let mut output = [0.0; 2];
    cache.matmul_cached("w", &[1.0, 1.0, 1.0], &mut output, 1).unwrap();
    let one = output;
    let mut output = [0.0; 4];
    cache.matmul_cached("w", &[1.0; 6], &mut output, 2).unwrap();
    // One row and several agree.
    assert_eq!(output, [one[0], one[1], one[0], one[1]]);
    assert!(cache.matmul_cached("v", &[1.0; 3], &mut [0.0; 2], 1).is_err());
}

/// A reduction for which no WGSL was written.
struct Product;

impl ReduceOp for Product {
    fn identity() -> f32 {
        1.0
    }

    fn combine(a: f32, b: f32) -> f32 {
        a * b
    }
}

#[test]
fn matrices_are_reduced_by_tiles() {
    let data: Vec<f32> = (0..35).map(|x| x as f32).collect();
    assert_eq!(tiled_sum_2d(&data, 7, 5).unwrap(), 595.0);
    assert_eq!(
        (tiled_max_2d(&data, 7, 5).unwrap(), tiled_min_2d(&data, 7, 5).unwrap()),
        (34.0, 0.0)
    );
    assert!(tiled_sum_2d(&data[..30], 7, 5).is_err());
    assert_eq!(tiled_reduce_2d::<SumOp>(&data, 7, 5).unwrap(), 595.0);
    assert_eq!(tiled_reduce_2d::<Product>(&[2.0, 3.0, 4.0, 5.0], 2, 2).unwrap(), 120.0);
    assert_eq!(tiled_reduce_partial::<MaxOp>(&data, 7, 5).unwrap(), [34.0]);
    let wide = vec![1.0; 20 * 17];
    assert_eq!(tiled_reduce_partial::<MinOp>(&wide, 20, 17).unwrap(), [1.0; 4]);
    // On a GPU, a reduction without WGSL is an error.
    named_adapter();
    let x = aleatron_tensor::Tensor::from_slice(
        &[2.0f32, 3.0],
        &[1, 2],
        &aleatron_tensor::Device::gpu().unwrap(),
    );
    let refused = aleatron_tensor::tiles::tiled_reduce_2d::<Product>(&x.unwrap());
    assert!(
        matches!(refused, Err(Error::Unsupported { what, .. }) if what.contains("WGSL")),
        "{refused:?}"
    );
}

#[test]
fn views_are_partitioned_into_tiles() {
    let view = TensorView::<f32>::new_2d(20, 17).unwrap();
    assert_eq!((view.numel(), view.layout()), (340, MemoryLayout::RowMajor));
    let tiles = PartitionView::new_2d(view, TILE_SIZE, TILE_SIZE).unwrap();
    assert_eq!(tiles.total_tiles(), 4);
    let last: TileInfo = tiles.iter_tiles().last().unwrap();
    assert!(last.is_edge);
}

#[test]
fn shader_sources_are_public() {
    assert!(shaders::EXPONENTIALS.contains("fn m_exp"));
    for source in
        [shaders::BASIC, shaders::LOGARITHMS, shaders::ERROR_FUNCTION, shaders::TRIGONOMETRY]
    {
        assert!(source.contains("fn "));
    }
}

#[cfg(feature = "raw")]
#[test]
fn wgpu_is_exported() {
    use aleatron_tensor::compat::trueno::wgpu;
    assert!(wgpu::Limits::default().max_bind_groups >= 4);
}
