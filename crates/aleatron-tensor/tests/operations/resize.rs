//! Resizing against formulas in 64 bits, on every device.

use crate::common::{Draw, U, all_devices, assert_within, devices, views};
use aleatron_tensor::{
    Border, Coordinates, DType, Error, Filter, Interpolation, Nearest, ResizeAxis, ResizeOptions,
    Tensor,
};
use half::f16;

const ALL: [Coordinates; 6] = [
    Coordinates::HalfPixel,
    Coordinates::HalfPixelSymmetric,
    Coordinates::PytorchHalfPixel,
    Coordinates::AlignCorners,
    Coordinates::Asymmetric,
    Coordinates::CropAndResize(7.0),
];

fn with(interpolation: Interpolation, coordinates: Coordinates) -> ResizeOptions {
    ResizeOptions { coordinates, ..ResizeOptions::new(interpolation) }
}

/// Returns the position of element `i` of `size` among `len`.
fn position(coordinates: Coordinates, i: usize, len: usize, size: usize) -> f64 {
    let (i, len, size) = (i as f64, len as f64, size as f64);
    match coordinates {
        Coordinates::HalfPixel | Coordinates::HalfPixelSymmetric => (i + 0.5) * len / size - 0.5,
        Coordinates::PytorchHalfPixel => {
            if size > 1.0 {
                (i + 0.5) * len / size - 0.5
            } else {
                0.0
            }
        }
        Coordinates::AlignCorners => {
            if size > 1.0 {
                i * (len - 1.0) / (size - 1.0)
            } else {
                0.0
            }
        }
        Coordinates::Asymmetric => i * len / size,
        Coordinates::CropAndResize(_) => {
            if size > 1.0 {
                i * (len - 1.0) / (size - 1.0)
            } else {
                (len - 1.0) / 2.0
            }
        }
    }
}

#[test]
fn linear_interpolation_matches_reference() {
    let mut draw = Draw::new(41);
    for device in devices() {
        for (len, size) in [(1, 3), (4, 8), (5, 3), (7, 7), (6, 1), (10, 23)] {
            let x = draw.floats(3 * len, -1.0, 1.0);
            let tensor = Tensor::from_slice(&x, &[3, len], &device).unwrap();
            for coordinates in ALL {
                let got = tensor
                    .resize(&[ResizeAxis::new(1, size)], &with(Interpolation::Linear, coordinates))
                    .unwrap();
                assert_eq!(got.shape(), [3, size]);
                let want: Vec<f64> = (0..3 * size)
                    .map(|i| {
                        let at = position(coordinates, i % size, len, size);
                        let (low, fraction) = (at.floor(), at - at.floor());
                        let element = |at: f64| {
                            f64::from(x[i / size * len + at.clamp(0.0, len as f64 - 1.0) as usize])
                        };
                        element(low) * (1.0 - fraction) + element(low + 1.0) * fraction
                    })
                    .collect();
                // Weights, products and their sum are rounded; positions differ by some 64-bit
                // roundings.
                let what = format!("{len} to {size} {coordinates:?} on {device}");
                assert_within(&what, &got.to_vec::<f32>().unwrap(), &want, |_| 4.0 * U);
            }
        }
    }
}

#[test]
fn nearest_neighbour_follows_the_rounding_option() {
    for device in all_devices() {
        let x = Tensor::arange(0, 4, 1, DType::F32, &device).unwrap();
        let of = |nearest, coordinates, size| {
            let axis = ResizeAxis::new(0, size);
            x.resize(&[axis], &with(Interpolation::Nearest(nearest), coordinates))
                .unwrap()
                .to_vec::<f32>()
                .unwrap()
        };
        assert_eq!(
            of(Nearest::PreferFloor, Coordinates::HalfPixel, 8),
            [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
        );
        assert_eq!(
            of(Nearest::Floor, Coordinates::Asymmetric, 8),
            [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
        );
        assert_eq!(
            of(Nearest::Ceil, Coordinates::Asymmetric, 8),
            [0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0]
        );
        assert_eq!(
            of(Nearest::PreferFloor, Coordinates::Asymmetric, 8),
            [0.0, 0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0]
        );
        assert_eq!(
            of(Nearest::PreferCeil, Coordinates::Asymmetric, 8),
            [0.0, 1.0, 1.0, 2.0, 2.0, 3.0, 3.0, 3.0]
        );
        assert_eq!(of(Nearest::PreferFloor, Coordinates::AlignCorners, 3), [0.0, 1.0, 3.0]);
        assert_eq!(of(Nearest::PreferFloor, Coordinates::HalfPixel, 2), [0.0, 2.0]);
    }
}

#[test]
fn crop_and_resize_uses_region_scale_and_outside_value() {
    for device in devices() {
        let x = Tensor::arange(0, 5, 1, DType::F32, &device).unwrap();
        let axis = ResizeAxis { region: [-0.25, 0.75], ..ResizeAxis::new(0, 5) };
        let got = x
            .resize(&[axis], &with(Interpolation::Linear, Coordinates::CropAndResize(9.0)))
            .unwrap();
        assert_eq!(got.to_vec::<f32>().unwrap(), [9.0, 0.0, 1.0, 2.0, 3.0]);
        let axis = ResizeAxis { scale: Some(2.0), ..ResizeAxis::new(0, 3) };
        let got = x.resize(&[axis], &with(Interpolation::Linear, Coordinates::Asymmetric)).unwrap();
        assert_eq!(got.to_vec::<f32>().unwrap(), [0.0, 0.5, 1.0]);
    }
}

/// Cubic convolution keeps straight lines straight, and its weights at a half are known.
#[test]
fn cubic_interpolation_matches_reference() {
    for device in devices() {
        let x = Tensor::from_slice(&[0.0f32, 0.0, 1.0, 0.0, 0.0], &[5], &device).unwrap();
        let axis = ResizeAxis { scale: Some(2.0), ..ResizeAxis::new(0, 9) };
        let got =
            x.resize(&[axis], &with(Interpolation::Cubic(-0.75), Coordinates::Asymmetric)).unwrap();
        // At distances 1/2 and 3/2: (a + 2) / 8 - (a + 3) / 4 + 1, and a (27 / 8 - 45 / 4 + 12 -
        // 4).
        let (a, near, far) = (-0.75f32, 0.59375f32, -0.09375f32);
        assert_eq!((a + 2.0) / 8.0 - (a + 3.0) / 4.0 + 1.0, near);
        assert_eq!(got.to_vec::<f32>().unwrap(), [0.0, far, 0.0, near, 1.0, near, 0.0, far, 0.0]);
    }
}

#[test]
fn several_axes_views_and_halves_are_resized() {
    let mut draw = Draw::new(42);
    let shape = [2, 3, 4, 5];
    let x = draw.floats(shape.iter().product(), -1.0, 1.0);
    let axes = [ResizeAxis::new(-2, 7), ResizeAxis::new(-1, 3)];
    for device in all_devices() {
        let whole = Tensor::from_slice(&x, &shape, &device).unwrap();
        let of = |x: &Tensor| x.resize(&axes, &ResizeOptions::new(Interpolation::Linear)).unwrap();
        let want = of(&whole);
        assert_eq!(want.shape(), [2, 3, 7, 3]);
        let want = want.to_vec::<f32>().unwrap();
        for (kind, view) in views(&x, &shape, &device) {
            assert_eq!(of(&view).to_vec::<f32>().unwrap(), want, "{kind} on {device}");
        }
        let halves = whole.cast(DType::F16).unwrap();
        let exact = of(&halves.cast(DType::F32).unwrap())
            .cast(DType::F16)
            .unwrap()
            .to_vec::<f16>()
            .unwrap();
        assert_eq!(of(&halves).to_vec::<f16>().unwrap(), exact, "{device}");
    }
}

#[test]
fn invalid_resizing_is_an_error() {
    for device in devices() {
        let x = Tensor::ones(&[2, 0], DType::F32, &device).unwrap();
        let resize = |x: &Tensor, axes: &[ResizeAxis]| {
            x.resize(axes, &ResizeOptions::new(Interpolation::Linear))
        };
        assert!(matches!(resize(&x, &[ResizeAxis::new(1, 3)]), Err(Error::Argument { .. })));
        assert_eq!(resize(&x, &[ResizeAxis::new(0, 3)]).unwrap().shape(), [3, 0]);
        assert!(matches!(resize(&x, &[ResizeAxis::new(2, 3)]), Err(Error::Axis { .. })));
        let twice = [ResizeAxis::new(0, 3), ResizeAxis::new(-2, 3)];
        assert!(matches!(resize(&x, &twice), Err(Error::RepeatedAxis { .. })));
        let scale = ResizeAxis { scale: Some(0.0), ..ResizeAxis::new(0, 3) };
        assert!(matches!(resize(&x, &[scale]), Err(Error::Argument { .. })));
        assert!(matches!(resize(&x, &[ResizeAxis::new(0, 1 << 40)]), Err(Error::TooLarge { .. })));
        assert!(matches!(resize(&x.cast(DType::U8).unwrap(), &[]), Err(Error::DType { .. })));
        let bytes = Tensor::from_slice(&[7u8, 8, 9], &[3], &device).unwrap();
        let nearest = Interpolation::Nearest(Nearest::Floor);
        let got = bytes
            .resize(&[ResizeAxis::new(0, 6)], &with(nearest, Coordinates::Asymmetric))
            .unwrap();
        assert_eq!(got.to_vec::<u8>().unwrap(), [7, 7, 8, 8, 9, 9]);
    }
}

/// A filter as wide as the elements of the result weighs all elements that it covers; neighbours
/// outside are ignored.
#[test]
fn antialiasing_weighs_every_element_within_its_width() {
    let mut draw = Draw::new(43);
    let x = draw.floats(2 * 12, -1.0, 1.0);
    for device in all_devices() {
        let tensor = Tensor::from_slice(&x, &[2, 12], &device).unwrap();
        for (size, border) in
            [(3, Border::Repeat), (5, Border::Ignore), (24, Border::Ignore), (1, Border::Repeat)]
        {
            let options = ResizeOptions {
                filter: Filter::Antialias,
                border,
                ..ResizeOptions::new(Interpolation::Linear)
            };
            let got = tensor.resize(&[ResizeAxis::new(1, size)], &options).unwrap();
            let scale = size as f64 / 12.0;
            let want: Vec<f64> = (0..2 * size)
                .map(|i| {
                    let at = ((i % size) as f64 + 0.5) / scale - 0.5;
                    let (mut sum, mut total) = (0.0, 0.0);
                    for k in -24..36_i32 {
                        let weight = (1.0 - (f64::from(k) - at).abs() * scale.min(1.0)).max(0.0);
                        let is_inside = (0..12).contains(&k);
                        if is_inside || border == Border::Repeat {
                            sum += weight * f64::from(x[i / size * 12 + k.clamp(0, 11) as usize]);
                            total += weight;
                        }
                    }
                    sum / total
                })
                .collect();
            // 25 weights at most, each rounded once like its product, and as many additions of
            // magnitudes below 1.
            let what = format!("12 to {size} {border:?} on {device}");
            assert_within(&what, &got.to_vec::<f32>().unwrap(), &want, |_| 28.0 * U);
        }
        let axis = ResizeAxis { scale: Some(1e-30), ..ResizeAxis::new(1, 1) };
        let options = ResizeOptions {
            filter: Filter::Antialias,
            ..ResizeOptions::new(Interpolation::Linear)
        };
        assert!(matches!(tensor.resize(&[axis], &options), Err(Error::Argument { .. })));
    }
}
