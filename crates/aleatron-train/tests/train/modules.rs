//! Modules: values, names of parameters, and modes.

use super::{assert_close, tensor, values};
use aleatron_tensor::{ConvOptions, Device, Generator, PoolOptions, Tensor};
use aleatron_train::Error;
use aleatron_train::module::{
    Activation, AvgPool2d, BatchNorm, Conv1d, Conv2d, Dropout, Embedding, Flatten, LayerNorm,
    Linear, MaxPool2d, Mode, Module, Residual, Sequential,
};

const CPU: Device = Device::Cpu;

fn lenet(generator: &mut Generator) -> Sequential {
    let conv = |channels, generator: &mut Generator| {
        Conv2d::new(channels, [3, 3], ConvOptions::default(), generator, &CPU).unwrap()
    };
    let pool = PoolOptions::new([2, 2]);
    Sequential::new()
        .with(conv([1, 2], generator))
        .with(BatchNorm::new(2, &CPU).unwrap())
        .with(Activation::Relu)
        .with(MaxPool2d(pool))
        .with(conv([2, 3], generator))
        .with(AvgPool2d(pool))
        .with(Flatten)
        .with(Residual(Linear::new(12, 12, generator, &CPU).unwrap()))
        .with(LayerNorm::new(&[12], &CPU).unwrap())
        .with(Dropout::new(0.5, 3).unwrap())
        .with(Linear::new(12, 4, generator, &CPU).unwrap())
}

#[test]
fn state_dict_has_the_names_of_torch_and_restores_outputs() {
    let mut model = lenet(&mut Generator::new(1));
    let state = model.state_dict().unwrap();
    let names: Vec<&str> = state.keys().map(String::as_str).collect();
    let expected = [
        "0.bias",
        "0.weight",
        "1.bias",
        "1.running_mean",
        "1.running_var",
        "1.weight",
        "10.bias",
        "10.weight",
        "4.bias",
        "4.weight",
        "7.bias",
        "7.weight",
        "8.bias",
        "8.weight",
    ];
    assert_eq!(names, expected);
    assert_eq!(state["4.weight"].shape(), [3, 2, 3, 3]);
    assert_eq!(model.parameters().len(), 12);
    let x = Generator::new(9).randn(&[5, 1, 14, 14], aleatron_tensor::DType::F32, &CPU).unwrap();
    model.set_mode(Mode::Evaluation);
    let mut other = lenet(&mut Generator::new(2));
    other.set_mode(Mode::Evaluation);
    assert_ne!(values(&model.forward(&x).unwrap()), values(&other.forward(&x).unwrap()));
    other.load_state_dict(&state).unwrap();
    assert_eq!(values(&model.forward(&x).unwrap()), values(&other.forward(&x).unwrap()));
}

#[test]
fn state_dict_with_missing_unknown_or_misshapen_tensors_changes_nothing() {
    let model = Linear::new(2, 2, &mut Generator::new(1), &CPU).unwrap();
    let before = model.state_dict().unwrap();
    let mut missing = before.clone();
    missing.remove("bias");
    let mut unknown = before.clone();
    unknown.insert("weights".to_owned(), tensor(&[0.0], &[1]));
    let mut misshapen = before.clone();
    misshapen.insert("bias".to_owned(), tensor(&[0.0; 3], &[3]));
    for (state, word) in [(missing, "missing"), (unknown, "weight, bias"), (misshapen, "[2]")] {
        let error = model.load_state_dict(&state).unwrap_err();
        assert!(
            matches!(error, Error::State { .. }) && error.to_string().contains(word),
            "{error}"
        );
    }
    for (name, value) in model.state_dict().unwrap() {
        assert_eq!(values(&value), values(&before[&name]));
    }
}

/// Two channels of three elements: means 2 and -1, variances 2/3 and 6.
#[test]
fn batch_norm_uses_batch_statistics_in_training_and_running_ones_in_evaluation() {
    let mut norm = BatchNorm::new(2, &CPU).unwrap();
    let x = tensor(&[1.0, 2.0, 2.0, -1.0, 3.0, -4.0], &[3, 2]);
    let y = norm.forward(&x).unwrap();
    let (a, b) = (1.0 / (2.0_f64 / 3.0 + 1e-5).sqrt(), 1.0 / (6.0_f64 + 1e-5).sqrt());
    assert_close(&values(&y), &[-a, 3.0 * b, 0.0, 0.0, a, -3.0 * b], 1e-5);
    norm.set_mode(Mode::Evaluation);
    let state = norm.state_dict().unwrap();
    assert_close(&values(&state["running_mean"]), &[0.2, -0.1], 1e-6);
    // Unbiased variances 1 and 9.
    assert_close(&values(&state["running_var"]), &[0.9 + 0.1, 0.9 + 0.9], 1e-6);
    let expected = |x: f64, mean: f64, variance: f64| (x - mean) / (variance + 1e-5).sqrt();
    let y = values(&norm.forward(&x).unwrap());
    assert_close(&y[..2], &[expected(1.0, 0.2, 1.0), expected(2.0, -0.1, 1.8)], 1e-5);
    norm.set_mode(Mode::Training);
    assert!(norm.forward(&tensor(&[1.0, 2.0], &[1, 2])).is_err());
    assert!(norm.forward(&tensor(&[1.0; 6], &[2, 3])).is_err());
}

/// Of 10,000 elements, 2,500 are dropped with a deviation of 43: five deviations are 217.
#[test]
fn dropout_drops_its_share_and_keeps_the_mean() {
    let mut dropout = Dropout::new(0.25, 5).unwrap();
    let x = Tensor::ones(&[10_000], aleatron_tensor::DType::F32, &CPU).unwrap();
    let first = values(&dropout.forward(&x).unwrap());
    let zeros = first.iter().filter(|&&value| value == 0.0).count();
    assert!(zeros.abs_diff(2_500) < 217, "{zeros}");
    assert!(first.iter().all(|&value| value == 0.0 || value == 1.0 / 0.75));
    assert_ne!(first, values(&dropout.forward(&x).unwrap()));
    dropout.set_mode(Mode::Evaluation);
    assert_eq!(values(&dropout.forward(&x).unwrap()), [1.0; 10_000]);
    assert!(Dropout::new(1.0, 0).is_err() && Dropout::new(f64::NAN, 0).is_err());
}

#[test]
fn embedding_returns_rows_and_passes_gradients_to_them() {
    let embedding = Embedding::new(4, 3, &mut Generator::new(1), &CPU).unwrap();
    let table = values(&embedding.state_dict().unwrap()["weight"]);
    let indices = Tensor::from_slice(&[2_i32, 0, 2, 2], &[2, 2], &CPU).unwrap();
    let rows = embedding.forward(&indices).unwrap();
    assert_eq!(rows.shape(), [2, 2, 3]);
    assert_eq!(values(&rows)[..6], [&table[6..9], &table[..3]].concat()[..]);
    rows.sum_all().unwrap().backward().unwrap();
    let gradient = values(&embedding.parameters()[0].grad().unwrap());
    assert_eq!(gradient, [1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 3.0, 3.0, 3.0, 0.0, 0.0, 0.0]);
    let outside = Tensor::from_slice(&[4_i32], &[1], &CPU).unwrap();
    assert!(embedding.forward(&outside).is_err());
}

#[test]
fn convolutions_of_groups_need_channels_that_divide() {
    let options = ConvOptions { groups: 2, ..ConvOptions::default() };
    let conv = Conv1d::new([4, 6], 3, options, &mut Generator::new(1), &CPU).unwrap();
    assert_eq!(conv.state_dict().unwrap()["weight"].shape(), [6, 2, 3]);
    assert_eq!(conv.forward(&tensor(&[0.5; 40], &[1, 4, 10])).unwrap().shape(), [1, 6, 8]);
    assert!(matches!(
        Conv1d::new([3, 6], 3, options, &mut Generator::new(1), &CPU),
        Err(Error::Option { .. })
    ));
    assert!(Linear::new(0, 3, &mut Generator::new(1), &CPU).is_err());
}
