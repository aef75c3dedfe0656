//! Views of more than 2^32 elements, which broadcasting creates without memory: results are exact,
//! or an error names the size.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_tensor::{
    AttentionOptions, ConvOptions, DType, Device, Dims, Error, Layout, Padding, PoolOptions,
    Reduction, Result, Tensor,
};
use common::gpu;

const HUGE: usize = 1 << 33;

fn devices() -> [Device; 2] {
    [Device::Cpu, gpu()]
}

fn floats(values: &[f32], shape: &[usize], device: &Device) -> Tensor {
    Tensor::from_slice(values, shape, device).unwrap()
}

#[test]
fn reductions_of_repeated_element_are_exact() {
    for device in devices() {
        let two = Tensor::full(&[1], 2.0, DType::F32, &device).unwrap();
        for n in [1usize << 32, (1 << 32) + 2, HUGE, 3 << 32] {
            let x = two.broadcast_to(&[n]).unwrap();
            let of =
                |reduction| x.reduce(reduction, &[], Dims::Drop).unwrap().item::<f32>().unwrap();
            assert_eq!(of(Reduction::Sum), 2.0 * n as f32, "{n} on {device}");
            assert_eq!(of(Reduction::Mean), 2.0, "{n} on {device}");
            assert_eq!([of(Reduction::Max), of(Reduction::Min)], [2.0; 2]);
            assert_eq!(of(Reduction::Prod), f32::INFINITY);
            assert_eq!(x.var_all(0.0).unwrap().item::<f32>().unwrap(), 0.0);
            let log = of(Reduction::LogSumExp);
            // The shift is exact, and so is the sum; ln and the addition round by an ulp and a half
            // of less than 32.
            assert!(
                (f64::from(log) - (2.0 + (n as f64).ln())).abs() < 1.5 * 2f64.powi(-19),
                "{log}"
            );
            let any = x.any_all().unwrap().item::<bool>().unwrap();
            assert!(any && x.all_all().unwrap().item::<bool>().unwrap());
        }
        let minus = Tensor::full(&[1], -1.0, DType::F32, &device).unwrap();
        let product = |n: usize| minus.broadcast_to(&[n]).unwrap().prod_all().unwrap();
        assert_eq!(product(HUGE + 1).item::<f32>().unwrap(), -1.0);
        assert_eq!(product(HUGE).item::<f32>().unwrap(), 1.0);
    }
}

#[test]
fn integer_sums_and_products_of_repeated_elements_wrap() {
    for device in devices() {
        let n = (1usize << 32) + 5;
        let x = Tensor::from_slice(&[7i32, -3], &[2, 1], &device)
            .unwrap()
            .broadcast_to(&[2, n])
            .unwrap();
        // Modulo 2^32 there are 5 copies.
        assert_eq!(x.sum(1).unwrap().to_vec::<i32>().unwrap(), [35, -15]);
        assert_eq!(x.sum_all().unwrap().item::<i32>().unwrap(), 20);
        let power = |base: u32, mut n: usize| {
            let (mut square, mut power) = (base, 1u32);
            while n > 0 {
                power = if n % 2 == 1 { power.wrapping_mul(square) } else { power };
                (square, n) = (square.wrapping_mul(square), n / 2);
            }
            power as i32
        };
        let expected = [power(7, n), power(-3i32 as u32, n)];
        assert_eq!(x.prod(1).unwrap().to_vec::<i32>().unwrap(), expected);
        if device.supports(DType::I64) {
            let wide =
                Tensor::from_slice(&[-3i64], &[1], &device).unwrap().broadcast_to(&[n]).unwrap();
            let sum = wide.sum_all().unwrap();
            assert_eq!(sum.item::<i64>().unwrap(), -3 * n as i64);
        }
        let bytes =
            Tensor::from_slice(&[200u8], &[1], &device).unwrap().broadcast_to(&[n]).unwrap();
        assert_eq!(bytes.sum_all().unwrap().item::<i32>().unwrap(), 1000);
    }
}

#[test]
fn rows_and_columns_of_broadcast_matrix_have_their_sums() {
    for device in devices() {
        let column = floats(&[1.0, 2.0, 3.0], &[3, 1], &device);
        let x = column.broadcast_to(&[3, 1 << 32]).unwrap();
        let sums = x.sum(1).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(sums, [1.0f32, 2.0, 3.0].map(|value| value * 4_294_967_296.0), "{device}");
        assert_eq!(x.sum_keepdim(1).unwrap().shape(), [3, 1]);
        // A result along a broadcast axis is a broadcast view, of which parts can be read.
        let sums = x.sum(0).unwrap();
        assert_eq!(sums.shape(), [1 << 32]);
        assert_eq!(sums.slice(0, (1 << 32) - 2..).unwrap().to_vec::<f32>().unwrap(), [6.0, 6.0]);
        assert_eq!(sums.sum_all().unwrap().item::<f32>().unwrap(), 6.0 * 4_294_967_296.0);
        let largest = x.argmax(0).unwrap();
        assert_eq!(largest.slice(0, ..3).unwrap().to_vec::<i32>().unwrap(), [2; 3]);
        // Other numbers of elements are not the mean's.
        assert_eq!(x.mean_all().unwrap().item::<f32>().unwrap(), 2.0);
    }
}

#[test]
fn indices_count_the_copies_of_broadcast_axes() {
    for device in devices() {
        let x = floats(&[1.0, 9.0, 3.0, 4.0, 9.0, 0.0], &[2, 1, 3, 1], &device);
        let x = x.broadcast_to(&[2, 5, 3, 7]).unwrap();
        let plain = x.contiguous().unwrap();
        for axes in [&[][..], &[0, 1], &[1, 2], &[0, 2], &[1, 3], &[2, 3], &[0, 1, 2, 3]] {
            for reduction in [Reduction::ArgMax, Reduction::ArgMin] {
                let of = |x: &Tensor| {
                    x.reduce(reduction, axes, Dims::Drop).unwrap().to_vec::<i32>().unwrap()
                };
                assert_eq!(of(&x), of(&plain), "{reduction:?} over {axes:?} on {device}");
            }
        }
        // Indices past 32 bits are errors.
        let wide = x.slice(3, ..1).unwrap().broadcast_to(&[2, 5, 3, 1 << 31]).unwrap();
        assert!(matches!(wide.argmax(3), Err(Error::TooLarge { .. })));
    }
}

/// Results of small broadcast views equal those of their copies, within the bounds of both.
#[test]
fn reductions_of_broadcast_views_match_their_copies() {
    for device in devices() {
        for dtype in [DType::F32, DType::F16] {
            let x = Tensor::randn_seeded(&[3, 1, 4, 1], 5, DType::F32, &device)
                .unwrap()
                .cast(dtype)
                .unwrap();
            let x = x.broadcast_to(&[3, 6, 4, 2]).unwrap();
            let plain = x.contiguous().unwrap();
            for axes in [&[][..], &[0], &[1], &[3], &[1, 3], &[0, 1, 2]] {
                for dims in [Dims::Keep, Dims::Drop] {
                    for &reduction in Reduction::ALL {
                        let of = |x: &Tensor| {
                            let result = x.reduce(reduction, axes, dims).unwrap();
                            let values = result.cast(DType::F32).unwrap().to_vec::<f32>().unwrap();
                            (result.dtype(), result.shape().to_vec(), values)
                        };
                        let (own, copied) = (of(&x), of(&plain));
                        assert_eq!(
                            (own.0, &own.1),
                            (copied.0, &copied.1),
                            "{reduction:?} {axes:?}"
                        );
                        for (own, copied) in own.2.iter().zip(&copied.2) {
                            // 144 elements below 4: sums are off by less than 2 * 144 * 576 / 2^24.
                            let bound = if dtype == DType::F16 { 0.25 } else { 0.01 };
                            let is_close = (own - copied).abs() <= bound * own.abs().max(1.0);
                            assert!(
                                is_close,
                                "{reduction:?} {axes:?} on {device}: {own} and {copied}"
                            );
                        }
                    }
                    let [own, copied] = [&x, &plain].map(|x| {
                        match dims {
                            Dims::Drop => x.var(axes, 1.0),
                            Dims::Keep => x.var_keepdim(axes, 1.0),
                        }
                        .unwrap()
                        .cast(DType::F32)
                        .unwrap()
                        .to_vec::<f32>()
                        .unwrap()
                    });
                    for (own, copied) in own.iter().zip(&copied) {
                        let is_close =
                            (own - copied).abs() <= 0.01 || (own.is_nan() && copied.is_nan());
                        assert!(is_close, "var {axes:?} on {device}: {own} and {copied}");
                    }
                }
            }
        }
    }
}

/// Checks that an operation fails because of its size.
#[track_caller]
fn assert_refused(what: &str, device: &Device, result: Result<Tensor>) {
    let result = result.and_then(|tensor| tensor.slice(0, ..1)?.contiguous());
    assert!(
        matches!(&result, Err(Error::TooLarge { .. } | Error::Memory { .. } | Error::Device(_))),
        "{what} on {device}: {result:?}"
    );
}

#[test]
fn operations_over_too_many_elements_are_errors() {
    for device in devices() {
        let one = floats(&[1.0], &[1, 1, 1, 1], &device);
        let view = |shape: &[usize]| one.broadcast_to(shape).unwrap();
        // More elements than kernels can number, and on the host more than any machine holds.
        let n = if device.is_gpu() { 1usize << 32 } else { 1 << 44 };
        assert_refused("product", &device, view(&[n, 2, 2, 2]).matmul(&view(&[n, 2, 2, 2])));
        let batch = one.reshape(&[1, 1, 1]).unwrap().broadcast_to(&[n, 1, 1]).unwrap();
        assert_refused("batched product", &device, batch.matmul(&batch));
        assert_refused(
            "row times column",
            &device,
            view(&[1, 1, n, 1]).matmul(&view(&[1, 1, 1, n])),
        );
        let keys = view(&[1, 1, 2, 4]);
        let queries = view(&[1, n, 2, 4]);
        assert_refused(
            "attention",
            &device,
            queries.attention(&keys, &keys, &AttentionOptions::default()),
        );
        let image = view(&[n, 1, 4, 4]);
        assert_refused(
            "conv2d",
            &device,
            image.conv2d(&view(&[1, 1, 2, 2]), None, &ConvOptions::default()),
        );
        assert_refused("max_pool2d", &device, image.max_pool2d(&PoolOptions::new([2, 2])));
        assert_refused(
            "avg_pool2d",
            &device,
            image.avg_pool2d(&PoolOptions::new([2, 2]), Padding::Ignored),
        );
        let row = view(&[1, 1, n, 4]);
        for (what, result) in [
            ("softmax", row.softmax(&[3])),
            ("layer_norm", row.layer_norm(&[3], None, None, 1e-5)),
            ("cumsum", row.cumsum(2)),
            ("copy", row.contiguous()),
            ("sort", row.sort(3, aleatron_tensor::Order::Ascending)),
            ("concat", Tensor::concat(&[&row, &row], 2)),
            ("flat copy", row.flip(2).and_then(|row| row.add(&one))),
        ] {
            assert_refused(what, &device, result);
        }
        let indices =
            Tensor::from_slice(&[0i32], &[1], &device).unwrap().broadcast_to(&[n]).unwrap();
        assert_refused("index_select", &device, view(&[1, 1, 1, 4]).index_select(3, &indices));
    }
}

#[test]
fn common_axis_past_32_bits_is_an_error_on_gpus() {
    let device = gpu();
    let one = floats(&[1.0], &[1, 1], &device);
    for k in [1usize << 32, (1 << 32) + 1, 1 << 40] {
        let product =
            one.broadcast_to(&[1, k]).unwrap().matmul(&one.broadcast_to(&[k, 1]).unwrap());
        let error = product.unwrap_err().to_string();
        assert!(error.contains("common axis") && error.contains(&k.to_string()), "{error}");
    }
    let (query, many) =
        (one.broadcast_to(&[1, 4]).unwrap(), one.broadcast_to(&[1 << 32, 4]).unwrap());
    let error =
        query.attention(&many, &many, &AttentionOptions::default()).unwrap_err().to_string();
    assert!(error.contains("4294967296"), "{error}");
}

/// A dimension past the limits does not reach kernels truncated: 2^32 + 2 rows are not 2.
#[test]
fn gather_along_broadcast_axis_takes_every_index() {
    for device in devices() {
        let x = floats(&[1.0, 2.0], &[2, 1], &device).broadcast_to(&[2, (1 << 31) + 9]).unwrap();
        let at =
            |indices: &Tensor| x.index_select(1, indices).and_then(|found| found.to_vec::<f32>());
        if device.supports(DType::I64) {
            let indices = Tensor::from_slice(&[0i64, (1 << 31) + 8, -1], &[3], &device).unwrap();
            assert_eq!(at(&indices).unwrap(), [1.0, 1.0, 1.0, 2.0, 2.0, 2.0], "{device}");
            let outside = Tensor::from_slice(&[0i64, (1 << 31) + 9], &[2], &device).unwrap();
            assert!(matches!(at(&outside), Err(Error::Index { position: 1, .. })));
        }
        let narrow = Tensor::from_slice(&[0i32, i32::MAX, -1], &[3], &device).unwrap();
        match at(&narrow) {
            Ok(found) => assert_eq!(found, [1.0, 1.0, 1.0, 2.0, 2.0, 2.0], "{device}"),
            // Kernels count from the end with the integers of the indices.
            Err(error) => {
                assert!(device.is_gpu() && error.to_string().contains("2147483657"), "{error}")
            }
        }
    }
}

#[test]
fn layouts_beyond_addresses_neither_panic_nor_reach_outside() {
    let empty = Tensor::zeros(&[1 << 62, 1 << 62, 0], DType::F32, &Device::Cpu).unwrap();
    assert!(empty.is_contiguous());
    assert_eq!(empty.sum(2).map(|sum| sum.len()).ok(), None);
    assert!(empty.mean([0, 1]).is_err());
    for (shape, strides, offset) in [
        (&[2usize][..], &[isize::MAX][..], 2usize),
        (&[2, 2], &[isize::MAX, isize::MAX], 0),
        (&[2], &[isize::MIN], 0),
    ] {
        assert!(matches!(
            Layout::strided(shape, strides, offset, usize::MAX),
            Err(Error::Argument { .. })
        ));
    }
}
