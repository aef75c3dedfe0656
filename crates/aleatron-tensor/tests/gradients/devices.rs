//! Gradients on a GPU against those of the CPU.

use aleatron_tensor::{
    BinaryOp, ConvOptions, DType, Device, Error, Order, PoolOptions, Result, Tensor, UnaryOp,
};

use super::common::{Draw, assert_within, gpu};

type Program = Box<dyn Fn(&[Tensor]) -> Result<Tensor>>;

/// Programs of a matrix [4, 6] and a row [6].
fn programs() -> Vec<(&'static str, Program)> {
    let mut all: Vec<(&'static str, Program)> = vec![
        ("sum", Box::new(|x| x[0].sum(0)?.mul(&x[1]))),
        ("prod", Box::new(|x| x[0].prod(1))),
        ("max", Box::new(|x| x[0].max(1)?.mul(&x[1].max_all()?))),
        ("var", Box::new(|x| x[0].var([0, 1], 1.0))),
        ("softmax", Box::new(|x| x[0].softmax(&[1])?.mul(&x[1]))),
        ("layer_norm", Box::new(|x| x[0].layer_norm(&[1], Some(&x[1]), Some(&x[1]), 0.1))),
        ("matmul", Box::new(|x| x[0].t()?.matmul(&x[0])?.matmul(&x[1]))),
        (
            "views",
            Box::new(|x| {
                x[0].slice(1, aleatron_tensor::Slice::from(1..).step(2))?.flip(0)?.t()?.square()
            }),
        ),
        ("concat", Box::new(|x| Tensor::concat(&[&x[0], &x[1].unsqueeze(0)?], 0)?.square())),
        (
            "pad",
            Box::new(|x| x[0].pad(&[(1, 2), (0, 1)], aleatron_tensor::PadMode::Edge)?.square()),
        ),
        ("cumprod", Box::new(|x| x[0].cumprod(0))),
        ("sort", Box::new(|x| x[0].sort(1, Order::Ascending)?.mul(&x[1]))),
        ("clip", Box::new(|x| x[0].clip(0.7, &x[1]))),
        ("cast", Box::new(|x| x[0].cast(DType::F16)?.cast(DType::F32)?.mul(&x[1]))),
        (
            "gather",
            Box::new(|x| {
                let indices =
                    Tensor::from_slice(&[0i32, 5, -1, 2, 2, 0, 1, 1], &[4, 2], &x[0].device())?;
                x[0].gather(1, &indices)?.square()
            }),
        ),
        (
            "index_select",
            Box::new(|x| {
                let indices = Tensor::from_slice(&[0i32, 3, -1, 0], &[2, 2], &x[0].device())?;
                x[0].index_select(0, &indices)?.square()
            }),
        ),
        (
            "a network",
            Box::new(|x| {
                let image = x[0].reshape(&[1, 1, 4, 6])?;
                let kernel = x[1].slice(0, ..4)?.reshape(&[1, 1, 2, 2])?;
                let y = image.conv2d(
                    &kernel,
                    None,
                    &ConvOptions { padding: [[1, 0]; 2], ..ConvOptions::default() },
                )?;
                y.max_pool2d(&PoolOptions::new([2, 2]))?.flatten(1, 3)?.log_softmax(&[1])
            }),
        ),
    ];
    for op in [UnaryOp::Gelu, UnaryOp::Silu] {
        all.push((op.name(), Box::new(move |x| x[0].unary(op)?.mul(&x[1]))));
    }
    for op in [BinaryOp::Div, BinaryOp::Pow, BinaryOp::Max] {
        all.push((op.name(), Box::new(move |x| Tensor::binary(op, &x[0], &x[1]))));
    }
    all
}

/// Gradients of the sum of squares of the results.
fn gradients(values: &[Vec<f32>; 2], device: &Device, f: &Program) -> Vec<Option<Vec<f32>>> {
    let shapes = [&[4, 6][..], &[6]];
    let leaf = |i: usize| {
        Tensor::from_slice(&values[i], shapes[i], device).unwrap().requires_grad().unwrap()
    };
    let leaves = [leaf(0), leaf(1)];
    let y = f(&leaves).unwrap();
    assert_eq!(y.device(), *device);
    y.mul(&y).unwrap().sum_all().unwrap().backward().unwrap();
    let read = |leaf: &Tensor| {
        let gradient = leaf.grad()?;
        assert_eq!((gradient.shape(), &gradient.device()), (leaf.shape(), device));
        Some(gradient.to_vec::<f32>().unwrap())
    };
    leaves.iter().map(read).collect()
}

#[test]
fn gradients_on_a_gpu_match_those_of_the_cpu() {
    let device = gpu();
    let mut draw = Draw::new(51);
    for (what, f) in programs() {
        let values = [draw.floats(24, 0.5, 1.5), draw.floats(6, 0.6, 1.4)];
        let (cpu, gpu) = (gradients(&values, &Device::Cpu, &f), gradients(&values, &device, &f));
        for (number, (cpu, gpu)) in cpu.into_iter().zip(gpu).enumerate() {
            assert_eq!(cpu.is_some(), gpu.is_some(), "{what}: gradient {number}");
            let (Some(cpu), Some(gpu)) = (cpu, gpu) else { continue };
            // A few hundred roundings of the largest intermediate number.
            let largest = cpu.iter().fold(1f32, |most, x| most.max(x.abs()));
            let cpu: Vec<f64> = cpu.into_iter().map(f64::from).collect();
            assert_within(&format!("{what}: gradient {number}"), &gpu, &cpu, |_| {
                1e-5 * f64::from(largest)
            });
        }
    }
}

#[test]
fn gradients_move_between_devices() {
    let x =
        Tensor::from_slice(&[1.0f32, 2.0], &[2], &Device::Cpu).unwrap().requires_grad().unwrap();
    let y = x.to_device(&gpu()).unwrap().square().unwrap().to_device(&Device::Cpu).unwrap();
    y.sum_all().unwrap().backward().unwrap();
    let gradient = x.grad().unwrap();
    assert_eq!(
        (gradient.device(), gradient.to_vec::<f32>().unwrap()),
        (Device::Cpu, vec![2.0, 4.0])
    );
}

#[test]
fn an_index_outside_its_axis_reaches_the_reader_of_a_gradient() {
    let device = gpu();
    let x = Tensor::ones(&[2, 3], DType::F32, &device).unwrap().requires_grad().unwrap();
    let indices = Tensor::from_slice(&[0i32, 3], &[2, 1], &device).unwrap();
    x.gather(1, &indices).unwrap().sum_all().unwrap().backward().unwrap();
    let read = x.grad().unwrap().to_vec::<f32>();
    assert!(
        matches!(read, Err(Error::Index { op: "gather", position: 1, value: 3, len: 3 })),
        "{read:?}"
    );
}
