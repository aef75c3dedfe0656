//! Everything that Volta's document of its GPU support shows, with other imports: the example, the
//! tests, and each function.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use aleatron_tensor::compat::volta;
use aleatron_tensor::compat::volta::gpu::{
    GpuBuffer, GpuContext, GpuKernels, MatMulParams, ReduceParams,
};
use aleatron_tensor::compat::volta::{Device, RawTensor, Storage, TensorOps};

/// Every test uses the GPU that the environment names. No adapter is a failure: these tests must
/// run.
fn named_adapter() {
    let is_named =
        ["SC_GPU_ADAPTER", "ALEATRON_GPU"].iter().any(|name| std::env::var_os(name).is_some());
    assert!(is_named, "name an adapter: SC_GPU_ADAPTER=llvmpipe");
    assert!(volta::is_gpu_available());
}

#[test]
fn usage_example_runs() {
    named_adapter();
    if volta::is_gpu_available() {
        println!("GPU available!");
    } else {
        println!("No GPU, using CPU");
    }
    let a = RawTensor::randn(&[100, 100]);
    let b = RawTensor::randn(&[100, 100]);
    let a_gpu = a.to_device(Device::GPU("default".to_string()));
    let b_gpu = b.to_device(Device::GPU("default".to_string()));
    let c_gpu = a_gpu.matmul(&b_gpu);
    let c_cpu = c_gpu.to_device(Device::CPU);
    println!("Result shape: {:?}", c_cpu.borrow().shape);
    assert_eq!(c_cpu.borrow().shape, [100, 100]);
    assert!(matches!(c_gpu.borrow().device(), Device::GPU(_)));
    assert_eq!(c_cpu.borrow().device(), Device::CPU);
    // Each call draws other numbers.
    assert_ne!(a.storage().unwrap().to_vec(), b.storage().unwrap().to_vec());
    let product = a.matmul(&b).storage().unwrap().to_vec();
    // Both within 101 u of sums of 100 products of normal floats, whose magnitudes add up to less
    // than 250.
    for (x, y) in c_cpu.storage().unwrap().to_vec().iter().zip(&product) {
        assert!((x - y).abs() < 2.0 * 101.0 * 250.0 / 16_777_216.0, "{x} {y}");
    }
}

#[test]
fn buffers_hold_what_was_copied_to_them() {
    named_adapter();
    let data = vec![1.0, 2.0, 3.0, 4.0];
    let buffer = GpuBuffer::from_slice(&data).unwrap();
    assert_eq!(data, buffer.to_vec());
    assert!(buffer.len() == 4 && !buffer.is_empty());
    assert_eq!(GpuBuffer::zeros(5).unwrap().to_vec(), [0.0; 5]);
    assert!(GpuBuffer::from_slice(&[]).unwrap().is_empty());
}

type Exact = fn(f64) -> f64;

#[test]
fn kernels_compute_every_documented_operation() {
    named_adapter();
    let a = GpuBuffer::from_slice(&[1.0, 2.0, 3.0, 4.0]).unwrap();
    let b = GpuBuffer::from_slice(&[5.0, 6.0, 7.0, 8.0]).unwrap();
    for (op, expected) in [
        ("add", [6.0, 8.0, 10.0, 12.0]),
        ("sub", [-4.0; 4]),
        ("mul", [5.0, 12.0, 21.0, 32.0]),
        ("div", [0.2, 1.0 / 3.0, 3.0 / 7.0, 0.5]),
    ] {
        assert_eq!(GpuKernels::binary_op(&a, &b, op).unwrap().to_vec(), expected, "{op}");
    }
    let operations: [(&str, Exact); 7] = [
        ("neg", |x| -x),
        ("exp", f64::exp),
        ("log", f64::ln),
        ("relu", |x| x.max(0.0)),
        ("sigmoid", |x| 1.0 / (1.0 + (-x).exp())),
        ("tanh", f64::tanh),
        ("sqrt", f64::sqrt),
    ];
    for (op, exact) in operations {
        let values = GpuKernels::unary_op(&a, op).unwrap().to_vec();
        for (x, value) in [1.0, 2.0, 3.0, 4.0].into_iter().zip(values) {
            // No operation is off by more than 4 units in the last place.
            let error = (f64::from(value) - exact(x)).abs();
            assert!(error <= 4.0 * f64::from(f32::EPSILON) * exact(x).abs(), "{op} {x}: {value}");
        }
    }
    let product = GpuKernels::matmul(&a, &b, 2, 2, 2).unwrap();
    assert_eq!(product.to_vec(), vec![19.0, 22.0, 43.0, 50.0]);
    assert_eq!(
        GpuKernels::sum(&GpuBuffer::from_slice(&vec![1.0; 1 << 20]).unwrap()),
        Some(1_048_576.0)
    );
    // Unknown names and mismatched sizes return `None` instead of a panic.
    assert!(GpuKernels::binary_op(&a, &b, "plus").is_none());
    assert!(GpuKernels::binary_op(&a, &b, "equal").is_none());
    assert!(GpuKernels::unary_op(&a, "").is_none());
    assert!(GpuKernels::binary_op(&a, &GpuBuffer::zeros(3).unwrap(), "add").is_none());
    assert!(GpuKernels::matmul(&a, &b, 2, 3, 2).is_none());
}

#[test]
fn storages_report_their_device() {
    named_adapter();
    let mut host = Storage::cpu(vec![1.0, 2.0]);
    host.as_mut_slice().unwrap()[1] = 5.0;
    assert_eq!(
        (host.as_slice(), host.len(), host.is_empty(), host.is_gpu()),
        (&[1.0, 5.0][..], 2, false, false)
    );
    assert!(host.gpu_buffer().is_none());
    assert_eq!(format!("{host:?}"), "Storage::Cpu(2 elements)");
    let mut gpu = Storage::gpu(host.to_vec());
    assert!(gpu.is_gpu() && gpu.as_mut_slice().is_none());
    assert_eq!(gpu.gpu_buffer().unwrap().to_vec(), [1.0, 5.0]);
    assert_eq!(format!("{gpu:?}"), "Storage::Gpu(2 elements)");
    let moved = host.to_device(&Device::GPU("default".to_string()));
    assert!(moved.is_gpu() && !moved.to_device(&Device::CPU).is_gpu());
    // Results are read when a slice is requested.
    let other = Storage::gpu(vec![3.0, 2.0]);
    let of = |storage: Option<Storage>| storage.unwrap().as_slice().to_vec();
    assert_eq!(of(RawTensor::gpu_add(&gpu, &other)), [4.0, 7.0]);
    assert_eq!(of(RawTensor::gpu_sub(&gpu, &other)), [-2.0, 3.0]);
    assert_eq!(of(RawTensor::gpu_mul(&gpu, &other)), [3.0, 10.0]);
    assert_eq!(of(RawTensor::gpu_div(&gpu, &other)), [1.0 / 3.0, 2.5]);
    assert_eq!(of(RawTensor::gpu_matmul(&gpu, &other, 1, 2, 1)), [13.0]);
    assert_eq!(of(RawTensor::gpu_unary(&other, "neg")), [-3.0, -2.0]);
    assert!(RawTensor::gpu_add(&host, &other).is_none());
    let Storage::Gpu { buffer, cpu_cache } = RawTensor::gpu_unary(&other, "relu").unwrap() else {
        panic!("a result on the host")
    };
    assert_eq!((buffer.len(), cpu_cache.get()), (2, None));
}

#[test]
fn tensors_compute_on_their_device_and_keep_the_first_error() {
    named_adapter();
    let gpu = || Device::GPU("default".to_string());
    for device in [Device::CPU, gpu(), Device::Metal("default".to_string())] {
        let x = RawTensor::new([1.0, 4.0], &[2]).to_device(device.clone());
        let y = RawTensor::new(vec![2.0, 2.0], &[2]).to_device(device);
        let of = |tensor: volta::Tensor| tensor.storage().unwrap().to_vec();
        assert_eq!(of(x.add(&y)), [3.0, 6.0]);
        assert_eq!(of(x.sub(&y)), [-1.0, 2.0]);
        assert_eq!(of(x.elem_mul(&y)), [2.0, 8.0]);
        assert_eq!(of(x.div(&y)), [0.5, 2.0]);
        assert_eq!(of(x.max_elem(&y)), [2.0, 4.0]);
        assert_eq!(of(x.neg().relu()), [0.0, 0.0]);
        assert_eq!(of(x.sqrt()), [1.0, 2.0]);
        assert_eq!(of(x.recip()), [1.0, 0.25]);
        assert_eq!((of(x.sum()), of(x.mean()), of(x.max())), (vec![5.0], vec![2.5], vec![4.0]));
        let zero = x.sub(&x);
        assert_eq!((of(zero.exp()), of(zero.exp().log())), (vec![1.0; 2], vec![0.0; 2]));
        assert_eq!((of(zero.sigmoid()), of(zero.tanh())), (vec![0.5; 2], vec![0.0; 2]));
        assert_eq!((of(zero.sin()), of(zero.cos())), (vec![0.0; 2], vec![1.0; 2]));
        let wrong = x.matmul(&RawTensor::zeros(&[3])).relu();
        assert!(wrong.get().is_err() && wrong.borrow().shape.is_empty());
    }
    let (host, gpu) = (RawTensor::ones(&[2]), RawTensor::rand(&[2]).to_device(gpu()));
    assert!(matches!(host.add(&gpu).get(), Err(aleatron_tensor::Error::Devices { .. })));
    // A device that does not exist is replaced by the CPU, with a warning.
    let moved = gpu.to_device(Device::GPU("no such adapter".to_string()));
    assert_eq!(moved.borrow().device(), Device::CPU);
}

#[test]
fn contexts_name_their_device() {
    named_adapter();
    let context = match GpuContext::new() {
        Ok(context) => context,
        Err(error) => panic!("{}", error),
    };
    let shared = volta::get_gpu_context().unwrap();
    assert_eq!(context.device_name(), shared.device_name());
    let sizes = MatMulParams { m: 1, k: 2, n: 3, _padding: 0 };
    assert_eq!(size_of_val(&sizes), 16);
    assert_eq!(size_of_val(&ReduceParams { input_size: 4, _padding: [0; 3] }), 16);
}

/// Commands of an application's own, over the pipelines, buffers and parameters of the context.
#[cfg(feature = "raw")]
mod raw {
    use super::*;
    use aleatron_device::raw::wgpu;
    use wgpu::util::DeviceExt;

    fn run(pipeline: &wgpu::ComputePipeline, buffers: &[&wgpu::Buffer], groups: [u32; 2]) {
        let ctx = volta::get_gpu_context().unwrap();
        let entries: Vec<_> = buffers
            .iter()
            .enumerate()
            .map(|(binding, buffer)| wgpu::BindGroupEntry {
                binding: binding as u32,
                resource: buffer.as_entire_binding(),
            })
            .collect();
        let bind_group = ctx.device().create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &pipeline.get_bind_group_layout(0),
            entries: &entries,
        });
        let mut encoder =
            ctx.device().create_command_encoder(&wgpu::CommandEncoderDescriptor { label: None });
        {
            let mut pass = encoder.begin_compute_pass(&wgpu::ComputePassDescriptor::default());
            pass.set_pipeline(pipeline);
            pass.set_bind_group(0, &bind_group, &[]);
            pass.dispatch_workgroups(groups[0], groups[1], 1);
        }
        ctx.queue().submit(Some(encoder.finish()));
    }

    fn uniform(bytes: &[u8]) -> wgpu::Buffer {
        let ctx = volta::get_gpu_context().unwrap();
        ctx.device().create_buffer_init(&wgpu::util::BufferInitDescriptor {
            label: None,
            contents: bytes,
            usage: wgpu::BufferUsages::UNIFORM,
        })
    }

    #[test]
    fn pipelines_compute_into_buffers() {
        named_adapter();
        let ctx = volta::get_gpu_context().unwrap();
        let pipelines = ctx.pipelines();
        let data: Vec<f32> = (1..=600).map(|i| i as f32 / 64.0).collect();
        let a = GpuBuffer::from_slice(&data).unwrap();
        let b = GpuBuffer::from_slice(&vec![2.0; 600]).unwrap();
        for (op, pipeline) in [
            ("add", &pipelines.add),
            ("sub", &pipelines.sub),
            ("mul", &pipelines.mul),
            ("div", &pipelines.div),
        ] {
            let result = GpuBuffer::zeros(600).unwrap();
            run(pipeline, &[a.buffer(), b.buffer(), result.buffer()], [3, 1]);
            assert_eq!(
                result.to_vec(),
                GpuKernels::binary_op(&a, &b, op).unwrap().to_vec(),
                "{op}"
            );
        }
        for (op, pipeline) in [
            ("neg", &pipelines.neg),
            ("exp", &pipelines.exp),
            ("log", &pipelines.log),
            ("relu", &pipelines.relu),
            ("sigmoid", &pipelines.sigmoid),
            ("tanh", &pipelines.tanh),
            ("sqrt", &pipelines.sqrt),
        ] {
            let result = GpuBuffer::zeros(600).unwrap();
            run(pipeline, &[a.buffer(), result.buffer()], [3, 1]);
            // The functions of the kernels, of which wgpu may compile checked copies.
            assert_eq!(result.to_vec(), GpuKernels::unary_op(&a, op).unwrap().to_vec(), "{op}");
        }
        let total = GpuBuffer::zeros(1).unwrap();
        let size = uniform(bytemuck::bytes_of(&ReduceParams { input_size: 600, _padding: [0; 3] }));
        run(&pipelines.sum_reduce, &[a.buffer(), total.buffer(), &size], [1, 1]);
        // 600 multiples of 1/64 below 10 are added exactly.
        assert_eq!(total.to_vec(), [600.0 * 601.0 / 2.0 / 64.0]);
        let (m, k, n) = (20, 30, 17);
        let left = GpuBuffer::from_slice(&data[..m * k]).unwrap();
        let right = GpuBuffer::from_slice(&data[..k * n]).unwrap();
        let product = GpuBuffer::zeros(m * n).unwrap();
        let sizes = MatMulParams { m: m as u32, k: k as u32, n: n as u32, _padding: 0 };
        let sizes = uniform(bytemuck::bytes_of(&sizes));
        run(&pipelines.matmul, &[left.buffer(), right.buffer(), product.buffer(), &sizes], [2, 2]);
        let exact = |i: usize| -> f64 {
            (0..k).map(|j| f64::from(data[i / n * k + j]) * f64::from(data[j * n + i % n])).sum()
        };
        for (i, value) in product.to_vec().into_iter().enumerate() {
            assert!(
                (f64::from(value) - exact(i)).abs() <= 31.0 * exact(i) / 16_777_216.0,
                "{i}: {value}"
            );
        }
    }

    /// Memory whose handle is held is not used for another buffer.
    #[test]
    fn handles_outlive_their_buffers() {
        named_adapter();
        let ctx = volta::get_gpu_context().unwrap();
        let handle = GpuBuffer::from_slice(&[1.0; 1000]).unwrap().buffer().clone();
        let other = GpuBuffer::from_slice(&[2.0; 1000]).unwrap();
        ctx.queue().write_buffer(&handle, 0, &[0xff; 4000]);
        ctx.queue().submit([]);
        assert_eq!(other.to_vec(), [2.0; 1000]);
        assert!(other.buffer() != &handle);
    }
}
