//! Kernels are compiled without run-time checks where their indices are known to be inside. With
//! the checks they must give the same bits, on the same inputs: a check that changes a result has
//! caught an index out of bounds. Other test files compare both with exact results; here every
//! family of kernels is run on views, with sizes that fit no workgroup.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_device::Checks;
use aleatron_tensor::{
    AttentionOptions, Causality, ConvOptions, ConvTransposeOptions, DType, Device, Interpolation,
    Order, PadMode, Padding, PoolOptions, ResizeAxis, ResizeOptions, Result, Tensor,
};
use common::{checked_gpu, gpu};

/// Random values in a view that is not in order: transposed, with gaps and flipped.
fn input(shape: &[usize], dtype: DType, seed: u64, device: &Device) -> Result<Tensor> {
    let mut wide = shape.to_vec();
    wide.reverse();
    wide[0] *= 2;
    let back: Vec<isize> = (0..shape.len() as isize).rev().collect();
    let whole = Tensor::randn_seeded(&wide, seed, DType::F32, device)?.cast(dtype)?;
    let gaps = aleatron_tensor::Slice::from(1..wide[0]).step(2);
    whole.slice(0, gaps)?.permute(&back)?.flip(0)
}

/// Returns the bits of the elements, for any type.
fn bits(tensor: &Tensor) -> Result<Vec<u32>> {
    match tensor.dtype() {
        DType::I32 => Ok(tensor.to_vec::<i32>()?.into_iter().map(|x| x as u32).collect()),
        _ => Ok(tensor.cast(DType::F32)?.to_vec::<f32>()?.into_iter().map(f32::to_bits).collect()),
    }
}

#[track_caller]
fn assert_equal(what: &str, operation: impl Fn(&Device) -> Result<Vec<Tensor>>) {
    let devices = [gpu(), checked_gpu()];
    let kinds = devices.each_ref().map(|device| match device {
        Device::Gpu(gpu) => gpu.context().checks(),
        Device::Cpu => panic!("a GPU is wanted"),
    });
    assert_eq!(kinds, [Checks::AsDeclared, Checks::Always]);
    let [plain, checked] = devices.map(|device| {
        let results = operation(&device).unwrap();
        assert!(!results.is_empty());
        results.iter().map(|tensor| bits(tensor).unwrap()).collect::<Vec<_>>()
    });
    for (i, (plain, checked)) in plain.iter().zip(&checked).enumerate() {
        let differs = plain.iter().zip(checked).position(|(a, b)| a != b);
        assert!(
            plain.len() == checked.len() && differs.is_none(),
            "{what}, result {i}: element {differs:?}"
        );
    }
}

const DTYPES: [DType; 2] = [DType::F32, DType::F16];

#[test]
fn elementwise_and_random_kernels_are_equal_with_checks() {
    assert_equal("elementwise", |device| {
        let mut all = vec![Tensor::rand_seeded(&[1001], 7, DType::F32, device)?];
        for dtype in DTYPES {
            let (x, y) = (input(&[37, 53], dtype, 1, device)?, input(&[53], dtype, 2, device)?);
            all.extend([x.add(&y)?.tanh()?, x.mul(&y)?.exp()?, x.gt(&y)?.where_(&x, &y)?]);
            all.push(x.cast(DType::I32)?.add(&y.cast(DType::I32)?)?);
        }
        Ok(all)
    });
}

#[test]
fn reductions_scans_and_sorts_are_equal_with_checks() {
    assert_equal("reductions", |device| {
        let mut all = Vec::new();
        for dtype in DTYPES {
            let x = input(&[19, 31, 67], dtype, 3, device)?;
            for axes in [&[][..], &[1], &[0, 2]] {
                all.extend([x.sum(axes)?, x.argmin_keepdim(axes)?]);
            }
            all.extend([x.softmax(&[2])?, x.layer_norm(&[0, 1], None, None, 1e-5)?, x.cumsum(1)?]);
            let (values, indices) = x.topk(5, 0, Order::Descending)?;
            all.extend([values, indices]);
        }
        Ok(all)
    });
}

#[test]
fn products_and_attention_are_equal_with_checks() {
    assert_equal("products", |device| {
        let mut all = Vec::new();
        for dtype in DTYPES {
            for [m, k, n] in [[1, 70, 33], [33, 65, 130], [3, 1030, 7]] {
                let (x, y) =
                    (input(&[2, m, k], dtype, 4, device)?, input(&[k, n], dtype, 5, device)?);
                all.push(x.matmul(&y)?);
            }
            for [queries, keys] in [[1, 300], [33, 65]] {
                let q = input(&[3, queries, 20], dtype, 6, device)?;
                let (k, v) = (
                    input(&[3, keys, 20], dtype, 7, device)?,
                    input(&[3, keys, 12], dtype, 8, device)?,
                );
                let causality = Causality::FromFirst;
                all.push(q.attention(&k, &v, &AttentionOptions::default())?);
                all.push(q.attention(
                    &k,
                    &v,
                    &AttentionOptions { causality, ..AttentionOptions::default() },
                )?);
            }
        }
        Ok(all)
    });
}

#[test]
fn images() {
    assert_equal("images", |device| {
        let mut all = Vec::new();
        for dtype in DTYPES {
            let x = input(&[2, 6, 13, 17], dtype, 9, device)?;
            for groups in [1, 3] {
                let weight = input(&[12, 6 / groups, 3, 2], dtype, 10, device)?;
                let options = ConvOptions {
                    stride: [2, 1],
                    padding: [[1, 2], [0, 1]],
                    dilation: [1, 2],
                    groups,
                };
                all.push(x.conv2d(&weight, None, &options)?);
            }
            let weight = input(&[6, 4, 3, 3], dtype, 11, device)?;
            all.push(x.conv_transpose2d(&weight, None, &ConvTransposeOptions::default())?);
            let window =
                PoolOptions { stride: [2, 3], padding: [[1, 1]; 2], ..PoolOptions::new([3, 3]) };
            all.extend([x.max_pool2d(&window)?, x.avg_pool2d(&window, Padding::default())?]);
            let sizes = [ResizeAxis::new(2, 29), ResizeAxis::new(3, 5)];
            all.push(x.resize(&sizes, &ResizeOptions::new(Interpolation::Linear))?);
        }
        Ok(all)
    });
}

#[test]
fn indices_and_slices_are_equal_with_checks() {
    assert_equal("indices", |device| {
        let mut all = Vec::new();
        for dtype in DTYPES {
            let x = input(&[21, 34], dtype, 12, device)?;
            let rows = Tensor::from_slice(&[20, 0, 7, 7, 3], &[5], device)?;
            all.extend([x.index_select(0, &rows)?, Tensor::concat(&[&x, &x.flip(1)?], 0)?]);
            all.extend([
                x.pad(&[(2, 3), (1, 5)], PadMode::Reflect)?,
                x.tile(&[2, 3])?,
                x.t()?.contiguous()?,
            ]);
            let indices: Vec<i32> = (0..2 * 34).map(|i| i * 5 % 21).collect();
            let indices = Tensor::from_slice(&indices, &[2, 34], device)?;
            all.push(x.gather(0, &indices)?);
        }
        Ok(all)
    });
}
