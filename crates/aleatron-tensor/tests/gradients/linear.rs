//! Matrix products, convolutions, pooling and attention.

use aleatron_tensor::{
    AttentionOptions, Causality, ConvOptions, ConvTransposeOptions, DType, Device, Padding,
    PoolOptions, Result, Rounding, Tensor,
};

use super::check::{check, random};
use super::common::{Draw, gpu};

#[test]
fn matmul_of_every_rank_matches_finite_differences() {
    let mut draw = Draw::new(31);
    let shapes = [
        (&[3][..], &[3][..]),
        (&[2, 3], &[3]),
        (&[3], &[3, 2]),
        (&[2, 3], &[3, 4]),
        (&[2, 2, 3], &[3, 2]),
        (&[2, 3], &[2, 3, 2]),
        (&[2, 1, 2, 3], &[3, 3, 2]),
        (&[2, 2, 3], &[3]),
        (&[3], &[2, 3, 2]),
        (&[1, 2, 3], &[2, 3, 1]),
        (&[2, 0], &[0, 3]),
    ];
    for (left, right) in shapes {
        let (x, y) = (random(&mut draw, left, -1.0, 1.0), random(&mut draw, right, -1.0, 1.0));
        check(&format!("matmul of {left:?} and {right:?}"), &[x, y], |x| x[0].matmul(&x[1]));
    }
    let x = random(&mut draw, &[3, 3], -1.0, 1.0);
    check("matmul with its transpose", &[x], |x| x[0].matmul(&x[0].t()?));
}

/// Small integers, whose sums and products are exact.
fn integers(draw: &mut Draw, shape: &[usize], device: &Device) -> Tensor {
    let values: Vec<f32> =
        draw.ints(shape.iter().product(), -4, 5).into_iter().map(|x| x as f32).collect();
    Tensor::from_slice(&values, shape, device).unwrap()
}

/// Checks a function that is affine in each of its inputs while the others stay: differences are
/// exact, and so must gradients be.
#[track_caller]
fn check_affine(what: &str, inputs: &[Tensor], step: f32, f: impl Fn(&[Tensor]) -> Result<Tensor>) {
    let device = inputs[0].device();
    let shape = f(inputs).unwrap_or_else(|error| panic!("{what}: {error}")).shape().to_vec();
    let weights = integers(&mut Draw::new(98), &shape, &device);
    let loss = |inputs: &[Tensor]| f(inputs)?.mul(&weights)?.sum_all();
    let leaves: Vec<Tensor> = inputs.iter().map(|input| input.requires_grad().unwrap()).collect();
    loss(&leaves).unwrap().backward().unwrap_or_else(|error| panic!("{what}: {error}"));
    let before = loss(inputs).unwrap().item::<f32>().unwrap();
    for (number, (input, leaf)) in inputs.iter().zip(&leaves).enumerate() {
        let gradient =
            leaf.grad().unwrap_or_else(|| panic!("{what}: input {number} has no gradient"));
        assert_eq!(gradient.shape(), input.shape(), "{what}: shape of gradient {number}");
        let (gradient, values) =
            (gradient.to_vec::<f32>().unwrap(), input.to_vec::<f32>().unwrap());
        for i in 0..values.len() {
            let mut moved = values.clone();
            moved[i] += step;
            let mut inputs = inputs.to_vec();
            inputs[number] = Tensor::from_slice(&moved, input.shape(), &device).unwrap();
            let difference = (loss(&inputs).unwrap().item::<f32>().unwrap() - before) / step;
            assert_eq!(gradient[i], difference, "{what}: gradient {number}, element {i}");
        }
    }
}

/// Convolutions: the shape of the image, that of the kernel, and options.
fn convolutions() -> Vec<([usize; 4], [usize; 4], ConvOptions<2>)> {
    let plain = ConvOptions::default();
    vec![
        ([2, 1, 4, 4], [2, 1, 3, 3], plain),
        ([1, 3, 4, 5], [5, 3, 2, 3], ConvOptions { padding: [[1, 1], [0, 2]], ..plain }),
        (
            [2, 2, 6, 5],
            [4, 2, 3, 2],
            ConvOptions { stride: [2, 3], padding: [[1, 0], [1, 1]], ..plain },
        ),
        ([1, 2, 7, 6], [3, 2, 2, 3], ConvOptions { dilation: [3, 2], stride: [1, 2], ..plain }),
        ([2, 4, 4, 4], [6, 2, 3, 3], ConvOptions { groups: 2, padding: [[1, 1]; 2], ..plain }),
        (
            [1, 3, 3, 3],
            [3, 1, 3, 3],
            ConvOptions { groups: 3, padding: [[2, 1]; 2], stride: [2, 2], ..plain },
        ),
        ([3, 2, 1, 1], [2, 2, 1, 1], plain),
        ([1, 1, 2, 2], [1, 1, 3, 3], ConvOptions { padding: [[3, 3]; 2], ..plain }),
        // Few channels and many positions, whose products are summed differently.
        ([2, 1, 18, 19], [2, 1, 3, 2], plain),
        ([1, 2, 7, 6], [3, 2, 3, 3], ConvOptions { stride: [2, 1], padding: [[1, 1]; 2], ..plain }),
        // Steps that are longer than the image.
        ([1, 2, 3, 6], [2, 2, 1, 2], ConvOptions { stride: [1 << 62, 1], ..plain }),
        ([1, 2, 3, 6], [2, 2, 1, 2], ConvOptions { stride: [1 << 63, 2], ..plain }),
    ]
}

#[test]
fn conv2d_has_exact_gradients() {
    let mut draw = Draw::new(32);
    for (image, kernel, options) in convolutions() {
        let [x, w, b] = [&image[..], &kernel, &[kernel[0]]]
            .map(|shape| integers(&mut draw, shape, &Device::Cpu));
        let what = format!("conv2d of {image:?} and {kernel:?} with {options:?}");
        check_affine(&what, &[x.clone(), w.clone(), b], 1.0, |x| {
            x[0].conv2d(&x[1], Some(&x[2]), &options)
        });
        // A view that does not lie in order.
        let turned = x.transpose(2, 3).unwrap().contiguous().unwrap();
        check_affine(&what, &[turned, w], 1.0, |x| {
            x[0].transpose(2, 3)?.conv2d(&x[1], None, &options)
        });
    }
}

#[test]
fn conv2d_has_exact_gradients_on_a_gpu() {
    let (mut draw, device) = (Draw::new(33), gpu());
    for (image, kernel, options) in convolutions().into_iter().skip(2).take(4) {
        let inputs = [&image[..], &kernel, &[kernel[0]]]
            .map(|shape| integers(&mut draw, shape, &Device::Cpu));
        let gradients = |device: &Device| {
            let leaves =
                inputs.each_ref().map(|x| x.to_device(device).unwrap().requires_grad().unwrap());
            let y = leaves[0].conv2d(&leaves[1], Some(&leaves[2]), &options).unwrap();
            y.square().unwrap().sum_all().unwrap().backward().unwrap();
            leaves.map(|leaf| leaf.grad().unwrap().to_vec::<f32>().unwrap())
        };
        assert_eq!(
            gradients(&Device::Cpu),
            gradients(&device),
            "conv2d of {image:?} and {kernel:?} with {options:?}"
        );
    }
}

#[test]
fn transposed_convolution_has_exact_gradients() {
    let mut draw = Draw::new(34);
    let plain = ConvTransposeOptions::default();
    let cases = [
        ([2, 2, 3, 3], [2, 3, 2, 2], plain),
        (
            [1, 2, 3, 2],
            [2, 1, 3, 3],
            ConvTransposeOptions {
                stride: [2, 3],
                padding: [[1, 0], [1, 1]],
                output_padding: [1, 2],
                ..plain
            },
        ),
        ([1, 4, 2, 3], [4, 1, 2, 2], ConvTransposeOptions { groups: 2, dilation: [2, 1], ..plain }),
        ([1, 1, 2, 2], [1, 2, 2, 2], ConvTransposeOptions { output_padding: [3, 1], ..plain }),
    ];
    for (image, kernel, options) in cases {
        let out = kernel[1] * options.groups;
        let inputs =
            [&image[..], &kernel, &[out]].map(|shape| integers(&mut draw, shape, &Device::Cpu));
        let what = format!("transposed convolution of {image:?} and {kernel:?} with {options:?}");
        check_affine(&what, &inputs, 1.0, |x| x[0].conv_transpose2d(&x[1], Some(&x[2]), &options));
    }
}

#[test]
fn convolution_of_sequences_has_exact_gradients() {
    let mut draw = Draw::new(35);
    let inputs =
        [&[2, 2, 6][..], &[4, 2, 3], &[4]].map(|shape| integers(&mut draw, shape, &Device::Cpu));
    let options = ConvOptions { stride: [2], padding: [[1, 1]], ..ConvOptions::default() };
    check_affine("conv1d", &inputs, 1.0, |x| x[0].conv1d(&x[1], Some(&x[2]), &options));
    let inputs = [&[2, 2, 4][..], &[2, 3, 3]].map(|shape| integers(&mut draw, shape, &Device::Cpu));
    let options =
        ConvTransposeOptions { stride: [2], padding: [[1, 1]], ..ConvTransposeOptions::default() };
    check_affine("conv_transpose1d", &inputs, 1.0, |x| {
        x[0].conv_transpose1d(&x[1], None, &options)
    });
}

/// Different integers in a random order.
fn permutation(draw: &mut Draw, shape: &[usize], device: &Device) -> Tensor {
    let mut values: Vec<f32> = (0..shape.iter().product::<usize>()).map(|x| x as f32).collect();
    for i in (1..values.len()).rev() {
        values.swap(i, draw.below(i + 1));
    }
    Tensor::from_slice(&values, shape, device).unwrap()
}

#[test]
fn pooling_has_exact_gradients_on_every_device() {
    let plain = PoolOptions::new([2, 2]);
    let cases = [
        plain,
        PoolOptions { stride: [1, 2], padding: [[1, 1], [0, 1]], ..plain },
        PoolOptions { stride: [1, 1], dilation: [2, 3], padding: [[1, 1]; 2], ..plain },
        PoolOptions { stride: [3, 2], rounding: Rounding::Up, ..PoolOptions::new([2, 4]) },
    ];
    let (mut draw, device) = (Draw::new(36), gpu());
    // Differences on the CPU, and the same gradients on a GPU.
    let check = |what: &str, x: &Tensor, step: f32, f: &dyn Fn(&Tensor) -> Result<Tensor>| {
        check_affine(what, std::slice::from_ref(x), step, |x| f(&x[0]));
        let gradient = |device: &Device| {
            let x = x.to_device(device).unwrap().requires_grad().unwrap();
            let y = f(&x).unwrap();
            y.backward_with(&integers(&mut Draw::new(97), y.shape(), device)).unwrap();
            x.grad().unwrap().to_vec::<f32>().unwrap()
        };
        assert_eq!(gradient(&device), gradient(&Device::Cpu), "{what}, on a GPU");
    };
    for options in cases {
        let x = permutation(&mut draw, &[2, 2, 5, 6], &Device::Cpu);
        check(&format!("max_pool2d with {options:?}"), &x, 0.25, &|x| x.max_pool2d(&options));
        if options.rounding == Rounding::Up {
            continue;
        }
        for padding in [Padding::Ignored, Padding::Counted] {
            let what = format!("avg_pool2d with {options:?} and {padding:?}");
            check(&what, &x, 1.0, &|x| x.avg_pool2d(&options, padding));
        }
    }
    let x = [permutation(&mut Draw::new(37), &[1, 2, 8], &Device::Cpu)];
    check_affine("max_pool1d", &x, 0.25, |x| x[0].max_pool1d(&PoolOptions::new([3])));
    check_affine("avg_pool1d", &x, 1.0, |x| {
        x[0].avg_pool1d(&PoolOptions::new([2]), Padding::Ignored)
    });
    check_affine("global_avg_pool", &x, 1.0, |x| x[0].global_avg_pool());
}

#[test]
fn the_first_largest_element_of_a_window_receives_the_gradient() {
    for device in [Device::Cpu, gpu()] {
        let x = [
            1.0f32,
            2.0,
            2.0,
            1.0,
            3.0,
            f32::NAN,
            f32::NAN,
            4.0,
            f32::NEG_INFINITY,
            f32::NEG_INFINITY,
        ];
        let x = Tensor::from_slice(&x, &[1, 1, 1, 10], &device).unwrap().requires_grad().unwrap();
        let options = PoolOptions { kernel: [1, 2], ..PoolOptions::new([1, 2]) };
        x.max_pool2d(&options).unwrap().sum_all().unwrap().backward().unwrap();
        let gradient = x.grad().unwrap().to_vec::<f32>().unwrap();
        assert_eq!(gradient, [0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0, 1.0, 0.0]);
    }
}

/// Attention in 64-bit floats, from operations whose gradients are checked elsewhere.
fn reference(q: &Tensor, k: &Tensor, v: &Tensor, mask: &Tensor, scale: f64) -> Result<Tensor> {
    q.matmul(&k.t()?)?.mul(scale)?.add(mask)?.softmax(&[-1])?.matmul(v)
}

#[test]
fn attention_matches_its_parts() {
    for device in [Device::Cpu, gpu()] {
        for causality in [Causality::None, Causality::FromFirst, Causality::FromLast] {
            let mut draw = Draw::new(38);
            let shapes = [&[2, 3, 4][..], &[1, 5, 4], &[5, 2], &[3, 5]];
            let values = shapes.map(|shape| draw.floats(shape.iter().product(), -1.0, 1.0));
            let leaf = |i: usize| {
                let leaf = Tensor::from_slice(&values[i], shapes[i], &device).unwrap();
                leaf.requires_grad().unwrap()
            };
            let leaves = [leaf(0), leaf(1), leaf(2), leaf(3)];
            let options = AttentionOptions { mask: Some(&leaves[3]), causality, scale: Some(0.7) };
            let y = leaves[0].attention(&leaves[1], &leaves[2], &options).unwrap();
            y.square().unwrap().sum_all().unwrap().backward().unwrap();
            let exact = [0, 1, 2, 3].map(|i| {
                let values: Vec<f64> = values[i].iter().copied().map(f64::from).collect();
                Tensor::from_slice(&values, shapes[i], &Device::Cpu)
                    .unwrap()
                    .requires_grad()
                    .unwrap()
            });
            let diagonal = match causality {
                Causality::None => 10,
                Causality::FromFirst => 0,
                Causality::FromLast => 2,
            };
            let seen = Tensor::ones(&[3, 5], DType::F64, &Device::Cpu)
                .unwrap()
                .tril(diagonal)
                .unwrap()
                .gt(0.5)
                .unwrap();
            let mask = seen.where_(&exact[3], f64::NEG_INFINITY).unwrap();
            let y = reference(&exact[0], &exact[1], &exact[2], &mask, 0.7).unwrap();
            y.square().unwrap().sum_all().unwrap().backward().unwrap();
            for (leaf, exact) in leaves.iter().zip(&exact) {
                let (got, want) = (leaf.grad().unwrap(), exact.grad().unwrap());
                assert_eq!(got.shape(), want.shape());
                // Numbers below 4 with some fifty roundings.
                let want = want.to_vec::<f64>().unwrap();
                super::common::assert_within(
                    "attention",
                    &got.to_vec::<f32>().unwrap(),
                    &want,
                    |_| 1.2e-5,
                );
            }
        }
    }
}

#[test]
fn queries_without_keys_have_zero_gradients() {
    let device = Device::Cpu;
    let q = Tensor::ones(&[2, 2], DType::F32, &device).unwrap().requires_grad().unwrap();
    let (k, v) = (q.detach().requires_grad().unwrap(), q.detach().requires_grad().unwrap());
    let mask = Tensor::from_slice(&[false, false, true, true], &[2, 2], &device).unwrap();
    let options = AttentionOptions { mask: Some(&mask), ..AttentionOptions::default() };
    q.attention(&k, &v, &options).unwrap().sum_all().unwrap().backward().unwrap();
    assert_eq!(q.grad().unwrap().to_vec::<f32>().unwrap(), [0.0; 4]);
    assert_eq!(v.grad().unwrap().to_vec::<f32>().unwrap(), [0.5; 4]);
}
