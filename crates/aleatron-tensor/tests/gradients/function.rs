//! Functions with gradients of their own, and checkpoints.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use aleatron_tensor::{DType, Device, Error, Result, Tensor, autograd};

fn leaf(values: &[f32]) -> Tensor {
    Tensor::from_slice(values, &[values.len()], &Device::Cpu).unwrap().requires_grad().unwrap()
}

/// x y, with gradients that tell the arguments apart.
#[derive(Clone, Copy)]
enum Product {
    Right,
    TooFew,
    WrongShape,
    WrongType,
    Fails,
}

#[derive(Debug, thiserror::Error)]
#[error("the scale is {0}, use a positive number")]
struct ScaleError(f32);

impl autograd::Function for Product {
    fn name(&self) -> &'static str {
        "product"
    }

    fn forward(&self, inputs: &[Tensor]) -> Result<Tensor> {
        assert!(inputs.iter().all(|input| !input.is_tracked()) && !autograd::is_enabled());
        inputs[0].mul(&inputs[1])
    }

    fn backward(
        &self,
        inputs: &[Tensor],
        output: &Tensor,
        gradient: &Tensor,
    ) -> Result<Vec<Option<Tensor>>> {
        assert_eq!(
            output.to_vec::<f32>().unwrap(),
            inputs[0].mul(&inputs[1]).unwrap().to_vec::<f32>().unwrap()
        );
        match self {
            Self::Right => Ok(vec![Some(gradient.mul(&inputs[1])?), None]),
            Self::TooFew => Ok(vec![None]),
            Self::WrongShape => Ok(vec![Some(gradient.sum_all()?), None]),
            Self::WrongType => Ok(vec![Some(gradient.cast(DType::F16)?), None]),
            Self::Fails => Err(Error::custom("product", ScaleError(-1.0))),
        }
    }
}

#[test]
fn a_function_uses_its_own_gradient() {
    let (x, y) = (leaf(&[2.0, 3.0]), leaf(&[5.0, 7.0]));
    let z = autograd::apply(Product::Right, &[&x, &y]).unwrap();
    z.sum_all().unwrap().backward().unwrap();
    assert_eq!(x.grad().unwrap().to_vec::<f32>().unwrap(), [5.0, 7.0]);
    assert!(y.grad().is_none());
    assert!(!autograd::apply(Product::Right, &[&x.detach(), &y.detach()]).unwrap().is_tracked());
    assert!(
        !autograd::no_grad(|| autograd::apply(Product::Right, &[&x, &y])).unwrap().is_tracked()
    );
}

#[test]
fn wrong_gradients_of_a_function_are_errors() {
    let (x, y) = (leaf(&[2.0, 3.0]), leaf(&[5.0, 7.0]));
    let backward = |function| autograd::apply(function, &[&x, &y])?.sum_all()?.backward();
    assert!(matches!(backward(Product::TooFew), Err(Error::Argument { op: "product", .. })));
    assert!(matches!(backward(Product::WrongShape), Err(Error::Shapes { op: "product", .. })));
    assert!(matches!(backward(Product::WrongType), Err(Error::Promotion { op: "product", .. })));
    let error = backward(Product::Fails).unwrap_err();
    assert_eq!(error.to_string(), "product: the scale is -1, use a positive number");
    let Error::Custom { error, .. } = &error else { panic!("{error}") };
    assert!(error.get().downcast_ref::<ScaleError>().is_some_and(|error| error.0 == -1.0));
    assert!(x.grad().is_none());
}

#[test]
fn a_checkpoint_computes_twice_and_gives_the_same_gradients() {
    let values = [0.5, -1.5];
    let (x, y) = (leaf(&values), leaf(&[2.0, 3.0]));
    let f = |x: &Tensor, y: &Tensor| x.exp()?.mul(y)?.sin()?.mul(x);
    f(&x, &y).unwrap().sum_all().unwrap().backward().unwrap();
    let expected = [&x, &y].map(|x| x.grad().unwrap().to_vec::<f32>().unwrap());
    [&x, &y].into_iter().for_each(Tensor::zero_grad);
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let output = autograd::checkpoint(&[&x, &y], move |inputs| {
        counted.fetch_add(1, Ordering::Relaxed);
        f(&inputs[0], &inputs[1])
    });
    let output = output.unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 1);
    output.sum_all().unwrap().backward().unwrap();
    assert_eq!(calls.load(Ordering::Relaxed), 2);
    assert_eq!([&x, &y].map(|x| x.grad().unwrap().to_vec::<f32>().unwrap()), expected);
    assert!(autograd::is_enabled());
}

#[test]
fn a_checkpoint_that_captures_a_leaf_is_an_error() {
    let (x, captured) = (leaf(&[2.0]), leaf(&[5.0]));
    let inner = captured.clone();
    let output = autograd::checkpoint(&[&x], move |inputs| inputs[0].mul(&inner)).unwrap();
    let error = output.backward().unwrap_err();
    assert!(error.to_string().contains("must be passed as an input"), "{error}");
    assert!(x.grad().is_none());
    // Without a tracked input nothing is computed twice, and the captured leaf gets its gradient.
    let inner = captured.clone();
    let output = autograd::checkpoint(&[&x.detach()], move |inputs| inputs[0].mul(&inner)).unwrap();
    output.backward().unwrap();
    assert_eq!(captured.grad().unwrap().to_vec::<f32>().unwrap(), [2.0]);
}
