//! The tape: leaves, accumulation, freed graphs, depth and threads.

use aleatron_tensor::{ConvOptions, DType, Device, Error, Tensor, autograd};

use super::common::Draw;

fn leaf(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, &[values.len()], &Device::Cpu).unwrap().requires_grad().unwrap()
}

fn gradient(x: &Tensor) -> Vec<f32> {
    x.grad().unwrap().to_vec::<f32>().unwrap()
}

#[test]
fn gradients_accumulate_until_they_are_removed() {
    let x = leaf(&[1.0, 2.0]);
    assert!(x.grad().is_none() && x.is_tracked() && x.is_leaf());
    for expected in [[2.0, 4.0], [4.0, 8.0]] {
        x.square().unwrap().sum_all().unwrap().backward().unwrap();
        assert_eq!(gradient(&x), expected);
    }
    x.zero_grad();
    assert!(x.grad().is_none());
    // A clone is the same leaf; another leaf over the same elements is not.
    let other = x.requires_grad().unwrap();
    x.clone().sum_all().unwrap().backward().unwrap();
    assert_eq!((gradient(&x), other.grad().is_none()), (vec![1.0, 1.0], true));
}

#[test]
fn a_value_used_several_times_sums_its_gradients() {
    let x = leaf(&[3.0]);
    let y = x.mul(&x).unwrap();
    let z = y.add(&y).unwrap().add(&x).unwrap();
    z.backward().unwrap();
    assert_eq!(gradient(&x), [13.0]);
}

#[test]
fn backward_with_weighs_every_element() {
    let x = leaf(&[1.0, 2.0]);
    let y = x.square().unwrap();
    let weights = Tensor::from_slice(&[10.0f32, 100.0], &[2], &Device::Cpu).unwrap();
    assert_eq!(y.backward(), Err(Error::NotScalar { shape: vec![2] }));
    let column = weights.reshape(&[2, 1]).unwrap();
    assert!(matches!(y.backward_with(&column), Err(Error::Shapes { .. })));
    let wide = weights.cast(DType::F64).unwrap();
    assert!(matches!(y.backward_with(&wide), Err(Error::Promotion { .. })));
    y.backward_with(&weights).unwrap();
    assert_eq!(gradient(&x), [20.0, 400.0]);
}

#[test]
fn untracked_outputs_and_integers_are_errors() {
    let plain = Tensor::ones(&[1], DType::F32, &Device::Cpu).unwrap();
    assert_eq!(plain.backward(), Err(Error::NoGraph));
    assert!(plain.backward().unwrap_err().to_string().contains("requires_grad"));
    assert_eq!(autograd::grad(&plain, &[&plain]).unwrap_err(), Error::NoGraph);
    let integers = Tensor::ones(&[1], DType::I32, &Device::Cpu).unwrap();
    assert!(matches!(
        integers.requires_grad(),
        Err(Error::DType { op: "requires_grad", dtype: DType::I32, .. })
    ));
}

#[test]
fn a_second_backward_pass_through_a_freed_graph_is_an_error() {
    let x = leaf(&[2.0]);
    let y = x.exp().unwrap();
    let z = y.mul(3.0).unwrap();
    let other = y.mul(5.0).unwrap();
    z.backward().unwrap();
    let before = gradient(&x);
    assert_eq!(z.backward(), Err(Error::GraphFreed { op: "mul" }));
    // The part below is freed, too, and no leaf changes.
    assert_eq!(other.backward(), Err(Error::GraphFreed { op: "exp" }));
    assert!(other.backward().unwrap_err().to_string().contains("compute the output again"));
    assert_eq!(gradient(&x), before);
    // A leaf has no graph to be freed.
    x.backward().unwrap();
    x.backward().unwrap();
    assert_eq!(gradient(&x), [before[0] + 2.0]);
}

#[test]
fn detached_tensors_pass_no_gradient_on() {
    let x = leaf(&[2.0]);
    let y = x.square().unwrap().detach();
    assert!(!y.is_tracked());
    y.mul(&x).unwrap().backward().unwrap();
    assert_eq!(gradient(&x), [4.0]);
}

#[test]
fn no_grad_records_nothing_and_ends_with_a_panic() {
    let x = leaf(&[2.0]);
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        autograd::no_grad(|| {
            assert!(!autograd::is_enabled());
            autograd::no_grad(|| assert!(!x.exp().unwrap().is_tracked()));
            assert!(!x.exp().unwrap().is_tracked() && !x.reshape(&[1, 1]).unwrap().is_tracked());
            panic!("as intended");
        })
    }));
    assert!(panicked.is_err() && autograd::is_enabled());
    assert!(x.exp().unwrap().is_tracked());
    // Other threads are not affected.
    autograd::no_grad(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| assert!(x.exp().unwrap().is_tracked())).join().unwrap();
        })
    });
    assert_eq!(
        autograd::set_recording(autograd::Recording::Disabled),
        autograd::Recording::Enabled
    );
    assert!(!x.exp().unwrap().is_tracked());
    assert_eq!(
        autograd::set_recording(autograd::Recording::Enabled),
        autograd::Recording::Disabled
    );
    assert!(x.exp().unwrap().is_tracked());
}

#[test]
fn grad_returns_gradients_of_inner_values_and_changes_no_leaf() {
    let (x, y, unused) = (leaf(&[2.0]), leaf(&[5.0]), leaf(&[1.0]));
    let inner = x.mul(&y).unwrap();
    let output = inner.square().unwrap();
    let gradients = autograd::grad(&output, &[&x, &inner, &unused, &output]).unwrap();
    let values: Vec<Option<f32>> =
        gradients.iter().map(|g| g.as_ref().map(|g| g.item::<f32>().unwrap())).collect();
    assert_eq!(values, [Some(100.0), Some(20.0), None, Some(1.0)]);
    assert!(x.grad().is_none() && y.grad().is_none());
}

/// Only the part of the graph that leads to the inputs is visited, so the rest stays usable.
#[test]
fn grad_visits_only_what_leads_to_the_inputs() {
    let (x, y) = (leaf(&[2.0]), leaf(&[5.0]));
    let side = y.exp().unwrap();
    let output = x.mul(&side).unwrap();
    autograd::grad(&output, &[&x]).unwrap();
    side.backward().unwrap();
    assert_eq!(gradient(&y), side.to_vec::<f32>().unwrap());
}

#[test]
fn a_chain_of_100_000_additions_needs_no_deep_stack() {
    let run = || {
        let x = leaf(&[1.0]);
        let chain = |x: &Tensor| (0..100_000).fold(x.clone(), |sum, _| sum.add(1.0).unwrap());
        let y = chain(&x);
        autograd::grad(&y, &[&x]).unwrap();
        chain(&x).backward().unwrap();
        assert_eq!(gradient(&x), [1.0]);
        // Dropped without a backward pass.
        drop(chain(&x));
    };
    std::thread::Builder::new().stack_size(256 << 10).spawn(run).unwrap().join().unwrap();
}

/// A small network: its gradients are the same bits for any number of threads.
#[test]
fn gradients_do_not_depend_on_the_number_of_threads() {
    let mut draw = Draw::new(41);
    let mut tensor = |shape: &[usize]| {
        let values = draw.floats(shape.iter().product(), -1.0, 1.0);
        Tensor::from_slice(&values, shape, &Device::Cpu).unwrap()
    };
    let inputs =
        [tensor(&[33, 3, 16, 16]), tensor(&[8, 3, 5, 5]), tensor(&[8]), tensor(&[288, 10])];
    let gradients = || {
        let leaves = inputs.each_ref().map(|input| input.requires_grad().unwrap());
        let [x, w, b, matrix] = &leaves;
        let y = x.conv2d(w, Some(b), &ConvOptions::default()).unwrap().relu().unwrap();
        let y = y
            .max_pool2d(&aleatron_tensor::PoolOptions::new([2, 2]))
            .unwrap()
            .reshape(&[33, 288])
            .unwrap();
        y.matmul(matrix)
            .unwrap()
            .log_softmax(&[1])
            .unwrap()
            .square()
            .unwrap()
            .sum_all()
            .unwrap()
            .backward()
            .unwrap();
        leaves.map(|leaf| leaf.grad().unwrap().to_vec::<f32>().unwrap())
    };
    let expected = gradients();
    let before = aleatron_cpu::threads::get_num_threads().unwrap();
    for threads in [1, 2, 3, 7] {
        aleatron_cpu::threads::set_num_threads(threads).unwrap();
        assert_eq!(gradients(), expected, "{threads} threads");
    }
    aleatron_cpu::threads::set_num_threads(before).unwrap();
}
