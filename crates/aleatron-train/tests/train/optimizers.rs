//! Optimizers against their rules in 64 bits.

use super::{assert_close, tensor, values};
use aleatron_tensor::Tensor;
use aleatron_train::{
    Adam, AdamOptions, Decay, Error, Optimizer, OptimizerKind, Parameter, Sgd, SgdOptions,
    clip_grad_norm,
};

const START: [f32; 3] = [1.0, -2.0, 0.5];

fn parameter() -> Parameter {
    Parameter::new(&tensor(&START, &[3])).unwrap()
}

/// The gradient of `sum(w^2 c)` is `2 w c`.
fn backward(parameter: &Parameter, factors: &Tensor) {
    parameter
        .tensor()
        .square()
        .unwrap()
        .mul(factors)
        .unwrap()
        .sum_all()
        .unwrap()
        .backward()
        .unwrap();
}

const FACTORS: [f32; 3] = [1.0, 0.25, -3.0];

#[test]
fn sgd_with_momentum_and_decay_follows_its_rule() {
    let parameter = parameter();
    let options = SgdOptions { rate: 0.1, momentum: 0.8, weight_decay: 0.05 };
    let mut sgd = Sgd::new(vec![parameter.clone()], options).unwrap();
    let mut expected = START.map(f64::from);
    let mut velocity = [0.0; 3];
    for _ in 0..4 {
        backward(&parameter, &tensor(&FACTORS, &[3]));
        sgd.step().unwrap();
        for k in 0..3 {
            let gradient = 2.0 * expected[k] * f64::from(FACTORS[k]) + 0.05 * expected[k];
            velocity[k] = 0.8 * velocity[k] + gradient;
            expected[k] -= 0.1 * velocity[k];
        }
        assert!(parameter.grad().is_none());
    }
    assert_close(&values(&parameter.tensor()), &expected, 2e-5);
}

#[test]
fn adam_follows_its_rule_with_both_kinds_of_decay() {
    for decay in [Decay::Coupled, Decay::Decoupled] {
        let parameter = parameter();
        let options = AdamOptions { rate: 0.1, weight_decay: 0.2, decay, ..AdamOptions::default() };
        let mut adam = Adam::new(vec![parameter.clone()], options).unwrap();
        let mut expected = START.map(f64::from);
        let (mut mean, mut square) = ([0.0; 3], [0.0; 3]);
        for step in 1..=5 {
            backward(&parameter, &tensor(&FACTORS, &[3]));
            adam.step().unwrap();
            for k in 0..3 {
                let mut gradient = 2.0 * expected[k] * f64::from(FACTORS[k]);
                match decay {
                    Decay::Coupled => gradient += 0.2 * expected[k],
                    Decay::Decoupled => expected[k] *= 1.0 - 0.1 * 0.2,
                }
                mean[k] = 0.9 * mean[k] + 0.1 * gradient;
                square[k] = 0.999 * square[k] + 0.001 * gradient * gradient;
                let (m, v) = (
                    mean[k] / (1.0 - 0.9_f64.powi(step)),
                    square[k] / (1.0 - 0.999_f64.powi(step)),
                );
                expected[k] -= 0.1 * m / (v.sqrt() + 1e-8);
            }
        }
        assert_close(&values(&parameter.tensor()), &expected, 2e-5);
    }
}

#[test]
fn restored_state_continues_with_the_same_bits() {
    for kind in
        [OptimizerKind::Adam(AdamOptions::default()), OptimizerKind::Sgd(SgdOptions::default())]
    {
        let whole = parameter();
        let mut optimizer = kind.build(vec![whole.clone()]).unwrap();
        let factors = tensor(&FACTORS, &[3]);
        for _ in 0..2 {
            backward(&whole, &factors);
            optimizer.step().unwrap();
        }
        let resumed = Parameter::new(&whole.tensor()).unwrap();
        let mut other = kind.build(vec![resumed.clone()]).unwrap();
        other.load_state(&optimizer.state().unwrap()).unwrap();
        for (parameter, optimizer) in [(&whole, &mut optimizer), (&resumed, &mut other)] {
            backward(parameter, &factors);
            optimizer.step().unwrap();
        }
        assert_eq!(values(&whole.tensor()), values(&resumed.tensor()));
        let mut wrong =
            kind.build(vec![Parameter::new(&tensor(&[1.0; 4], &[4])).unwrap()]).unwrap();
        assert!(matches!(wrong.load_state(&optimizer.state().unwrap()), Err(Error::State { .. })));
    }
}

#[test]
fn gradients_are_clipped_to_a_norm_over_all_parameters() {
    let (a, b) = (parameter(), parameter());
    backward(&a, &tensor(&[1.5, 0.0, 0.0], &[3]));
    backward(&b, &tensor(&[0.0, 1.0, 0.0], &[3]));
    // Gradients 3 and -4.
    assert_eq!(clip_grad_norm(&[a.clone(), b.clone()], 10.0).unwrap(), 5.0);
    assert_eq!(values(&a.grad().unwrap()), [3.0, 0.0, 0.0]);
    assert_eq!(clip_grad_norm(&[a.clone(), b.clone()], 2.5).unwrap(), 5.0);
    assert_eq!(values(&a.grad().unwrap()), [1.5, 0.0, 0.0]);
    assert_eq!(values(&b.grad().unwrap()), [0.0, -2.0, 0.0]);
    assert!(matches!(clip_grad_norm(&[a], 0.0), Err(Error::Option { .. })));
}

#[test]
fn options_out_of_range_are_errors() {
    for rate in [-1.0, f64::NAN, f64::INFINITY] {
        assert!(matches!(
            Sgd::new(Vec::new(), SgdOptions { rate, ..SgdOptions::default() }),
            Err(Error::Option { .. })
        ));
        assert!(matches!(
            Adam::new(Vec::new(), AdamOptions { rate, ..AdamOptions::default() }),
            Err(Error::Option { .. })
        ));
    }
    let momentum = SgdOptions { momentum: 1.0, ..SgdOptions::default() };
    assert!(Sgd::new(Vec::new(), momentum).is_err());
    let betas = AdamOptions { betas: [0.9, 1.0], ..AdamOptions::default() };
    assert!(Adam::new(Vec::new(), betas).is_err());
}
