//! Padding: every mode, on every device, compared with coordinates computed one by one.

use crate::common::{Draw, all_devices};
use aleatron_tensor::{DType, Device, Error, PadMode, Scalar, Tensor};

/// Returns the source of a coordinate; `None` for the constant.
fn source(at: usize, before: usize, len: usize, mode: PadMode) -> Option<usize> {
    let (i, n) = (at as isize - before as isize, len as isize);
    let inside = match mode {
        PadMode::Constant(_) => return (0..n).contains(&i).then_some(i as usize),
        PadMode::Edge => i.clamp(0, n - 1),
        PadMode::Reflect => {
            if i < 0 {
                -i
            } else if i >= n {
                2 * (n - 1) - i
            } else {
                i
            }
        }
        PadMode::Wrap => i.rem_euclid(n),
        other => panic!("{other:?} is not tested"),
    };
    Some(inside as usize)
}

#[test]
fn every_padding_mode_matches_reference() {
    let data = Draw::new(1).floats(3 * 5, -1.0, 1.0);
    let around = [(2, 1), (0, 4)];
    for device in all_devices() {
        for (what, x) in crate::common::views(&data, &[3, 5], &device) {
            for mode in [
                PadMode::Constant(Scalar::Float(7.5)),
                PadMode::Edge,
                PadMode::Reflect,
                PadMode::Wrap,
            ] {
                let y = x.pad(&around, mode).unwrap();
                assert_eq!(y.shape(), [6, 9]);
                let want: Vec<f32> = (0..54)
                    .map(|i| match (source(i / 9, 2, 3, mode), source(i % 9, 0, 5, mode)) {
                        (Some(r), Some(c)) => data[5 * r + c],
                        _ => 7.5,
                    })
                    .collect();
                assert_eq!(y.to_vec::<f32>().unwrap(), want, "{mode:?} of {what} on {device}");
            }
        }
        let empty = Tensor::zeros(&[0, 2], DType::I32, &device).unwrap();
        assert_eq!(
            empty
                .pad(&[(1, 0), (0, 0)], PadMode::Constant(Scalar::Int(3)))
                .unwrap()
                .to_vec::<i32>()
                .unwrap(),
            [3, 3]
        );
    }
}

#[test]
fn invalid_padding_is_an_error() {
    let x = Tensor::ones(&[2, 2], DType::U8, &Device::Cpu).unwrap();
    assert!(matches!(x.pad(&[(1, 1)], PadMode::Edge), Err(Error::Argument { .. })));
    assert!(matches!(x.pad(&[(2, 0), (0, 0)], PadMode::Reflect), Err(Error::Argument { .. })));
    assert!(matches!(x.pad(&[(3, 0), (0, 0)], PadMode::Wrap), Err(Error::Argument { .. })));
    assert!(matches!(
        x.pad(&[(1, 0), (0, 0)], PadMode::Constant(Scalar::Int(256))),
        Err(Error::Scalar { .. })
    ));
    assert!(matches!(
        x.pad(&[(usize::MAX, 1), (0, 0)], PadMode::Constant(Scalar::Int(0))),
        Err(Error::TooLarge { .. })
    ));
    let empty = Tensor::zeros(&[0], DType::F32, &Device::Cpu).unwrap();
    assert!(matches!(empty.pad(&[(1, 0)], PadMode::Edge), Err(Error::Argument { .. })));
}
