//! Weights kept on a GPU.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use aleatron_tensor::{DType, Device, Error, GpuMatmulCache, Tensor};
use common::{Draw, gpu};

fn cache() -> GpuMatmulCache {
    let Device::Gpu(device) = gpu() else { panic!("no GPU") };
    GpuMatmulCache::new(&device)
}

/// One row is the first of two rows, and of many, bit for bit; lengths need not be whole vectors.
#[test]
fn rows_of_a_product_do_not_depend_on_the_number_of_rows() {
    let mut draw = Draw::new(71);
    let mut cache = cache();
    for (rows, columns) in [(6, 5), (7, 9), (64, 48), (1030, 33)] {
        let weight = draw.floats(rows * columns, -1.0, 1.0);
        cache.upload_weight("w", &weight, rows, columns).unwrap();
        let input = draw.floats(40 * rows, -1.0, 1.0);
        let mut all = vec![0.0; 40 * columns];
        cache.matmul_cached("w", &input, &mut all, 40).unwrap();
        for m in [1, 2, 3, 4, 9, 17] {
            let mut some = vec![0.0; m * columns];
            cache.matmul_cached("w", &input[..m * rows], &mut some, m).unwrap();
            assert_eq!(some, all[..m * columns], "{m} rows by {rows} x {columns}");
        }
        for (i, &x) in all[..columns].iter().enumerate() {
            let want: f64 =
                (0..rows).map(|k| f64::from(input[k]) * f64::from(weight[k * columns + i])).sum();
            assert!((f64::from(x) - want).abs() < rows as f64 * 1e-7, "{x} {want}");
        }
    }
    // Six ones, where a kernel of whole vectors would count four.
    cache.upload_weight("ones", &[1.0; 6], 6, 1).unwrap();
    let mut output = [0.0];
    cache.matmul_cached("ones", &[1.0; 6], &mut output, 1).unwrap();
    assert_eq!(output, [6.0]);
}

#[test]
fn cached_weights_are_counted_replaced_and_removed() {
    let mut cache = cache();
    cache.upload_weight("a", &[1.0; 6], 2, 3).unwrap();
    cache.insert("b", &Tensor::ones(&[3, 2], DType::F16, &Device::Cpu).unwrap()).unwrap();
    assert_eq!((cache.weight_count(), cache.weight_bytes()), (2, 36));
    let input = Tensor::ones(&[1, 3], DType::F16, &cache.device()).unwrap();
    assert_eq!(
        cache.matmul("b", &input).unwrap().cast(DType::F32).unwrap().to_vec::<f32>().unwrap(),
        [3.0, 3.0]
    );
    cache.upload_weight("a", &[2.0; 4], 2, 2).unwrap();
    assert_eq!((cache.weight_count(), cache.weight("a").unwrap().shape()), (2, &[2, 2][..]));
    assert!(cache.remove("a") && !cache.remove("a"));
    let mut output = [0.0; 2];
    assert!(matches!(cache.matmul_cached("a", &[1.0; 2], &mut output, 1), Err(Error::Name { .. })));
}

#[test]
fn mismatched_lengths_are_errors() {
    let mut cache = cache();
    assert!(matches!(cache.upload_weight("w", &[1.0; 5], 2, 3), Err(Error::Elements { .. })));
    cache.upload_weight("w", &[1.0; 6], 2, 3).unwrap();
    let mut output = [0.0; 3];
    assert!(matches!(
        cache.matmul_cached("w", &[1.0; 3], &mut output, 1),
        Err(Error::Elements { .. })
    ));
    assert!(matches!(
        cache.matmul_cached("w", &[1.0; 4], &mut output, 2),
        Err(Error::Elements { .. })
    ));
    assert!(matches!(
        cache.matmul_cached("w", &[1.0; 2], &mut output, usize::MAX),
        Err(Error::Elements { .. })
    ));
    let line = Tensor::ones(&[3], DType::F32, &Device::Cpu).unwrap();
    assert!(matches!(cache.insert("w", &line), Err(Error::Rank { .. })));
    let integers = Tensor::ones(&[3, 3], DType::I32, &Device::Cpu).unwrap();
    assert!(matches!(cache.insert("w", &integers), Err(Error::DType { .. })));
}
