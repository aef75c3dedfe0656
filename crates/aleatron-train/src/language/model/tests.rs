//! The products of the forward pass through streams, against the engine.
#![allow(clippy::unwrap_used)]
use super::*;
use aleatron_core::{Cancel, LayerIndex, SampleSeed};
use aleatron_engine::StreamProduct;
use aleatron_engine::network::StreamConfig;
use aleatron_transformer::lora::{Projection, targets};
use aleatron_transformer::weights::Slot;
use aleatron_transformer::{AdapterOptions, CpuForwardPass, ForwardPass};

/// Scales at which about one in ten of the inputs below saturates.
const SCALE: f64 = 0.9;

fn model() -> LanguageModel {
    let source = ModelSource::Embedded;
    let config = source.config().unwrap();
    let targets = targets(&config, &["all"]).unwrap();
    let options = AdapterOptions { rank: 2, targets, ..AdapterOptions::default() };
    let adapter = Adapter::create(&config, &options, 1).unwrap();
    LanguageModel::from_pretrained(&source, &config, Trained::Adapter(adapter), &Device::Cpu)
        .unwrap()
}

fn inputs(rows: usize, columns: usize) -> Tensor {
    let values = (0..rows * columns).map(|k| ((k * 37 + 11) % 101) as f32 / 50.0 - 1.0).collect();
    Tensor::from_vec(values, &[rows, columns], &Device::Cpu).unwrap()
}

fn streams(config: &Config, generator: &str) -> LanguageStreams {
    let streams = StreamConfig::new(48).generator(generator.parse().unwrap());
    LanguageStreams { streams, input_scales: vec![SCALE; LinearId::all(config).len()] }
}

/// Outputs of all products are the counts of the matrices that the engine runs, and their gradients
/// those of the clipped product in floating point. A new adapter corrects nothing.
#[test]
fn products_through_streams_are_those_of_the_engine() {
    use Projection::{Down, Gate, Key, Output, Query, Up, Value};
    for generator in ["bernoulli", "sobol"] {
        let model = model();
        let settings = streams(&model.config, generator);
        let model = model.with_streams(settings.clone()).unwrap();
        let files = TensorFiles::open_model(&ModelSource::Embedded, &model.config).unwrap();
        let loader = Loader {
            config: &model.config,
            source: &files,
            precision: Precision::F32,
            merged: None,
        };
        let engine = CpuForwardPass::new(&loader).unwrap();
        let run = |linear: LinearId, x: &Tensor| {
            let [m, n] = linear.shape(&model.config);
            let index = LayerIndex::new(linear.index(&model.config)).unwrap();
            let weights = engine.linear_weights(linear).unwrap();
            let layer = settings.streams.settings;
            let device = &settings.streams.device;
            let product =
                StreamProduct::new(&weights, n, SCALE, &layer, 7, index, device, Cancel::NEVER)
                    .unwrap();
            let (values, saturated) =
                product.run(&x.to_vec::<f32>().unwrap(), SampleSeed::new(7)).unwrap();
            assert!(saturated > 0);
            (values.into_iter().map(|value| value as f32).collect::<Vec<f32>>(), m)
        };
        let options = PassOptions { seed: 7, ..PassOptions::PLAIN };
        let pass = model.pass(1, 3, options).unwrap();
        let layer = &model.layers[1];
        let tensors = model.parameters[1].tensors();
        let slots = {
            let of = |slot: Slot| inputs(3, slot.shape(&model.config)[1]);
            let h = model.config.hidden;
            let [q, k, v] = layer
                .product(Slot::Qkv, [Query, Key, Value], &of(Slot::Qkv), &tensors, &pass)
                .unwrap();
            let [o] =
                layer.product(Slot::Output, [Output], &of(Slot::Output), &tensors, &pass).unwrap();
            let [g, u] =
                layer.product(Slot::Up, [Gate, Up], &of(Slot::Up), &tensors, &pass).unwrap();
            let [d] = layer.product(Slot::Down, [Down], &of(Slot::Down), &tensors, &pass).unwrap();
            let inner = model.config.inner;
            let odd = |first: usize| (0..inner).map(|k| 2 * k + first).collect::<Vec<_>>();
            let block = |k: usize| (k * h..(k + 1) * h).collect::<Vec<_>>();
            [
                (Slot::Qkv, vec![(q, block(0)), (k, block(1)), (v, block(2))]),
                (Slot::Output, vec![(o, block(0))]),
                (Slot::Up, vec![(g, odd(0)), (u, odd(1))]),
                (Slot::Down, vec![(d, block(0))]),
            ]
        };
        for (slot, outputs) in &slots {
            let x = inputs(3, slot.shape(&model.config)[1]);
            let (values, m) = run(LinearId::Layer { layer: 1, slot: *slot }, &x);
            for (output, rows) in outputs {
                let expected = values.chunks(m).flat_map(|row| rows.iter().map(|&k| row[k]));
                let expected: Vec<f32> = expected.collect();
                assert_eq!(output.to_vec::<f32>().unwrap(), expected, "{generator}, {slot:?}");
            }
        }
        let x = inputs(3, model.config.hidden);
        let logits = model.head_of(&x, 7).unwrap().to_vec::<f32>().unwrap();
        assert_eq!(logits, run(LinearId::Head, &x).0, "{generator}, head");

        // The gradient of the sum of all outputs, with respect to the factors of a correction.
        let map = &layer.maps[&Gate];
        let gradients = |output: &Tensor| {
            output.sum_all().unwrap().backward().unwrap();
            let first = map.correction.unwrap().first;
            let found = tensors[first..first + 2].iter().map(|own| {
                let gradient = own.grad().unwrap().to_vec::<f32>().unwrap();
                own.zero_grad();
                gradient
            });
            found.collect::<Vec<_>>()
        };
        let [streamed, _] = layer.product(Slot::Up, [Gate, Up], &x, &tensors, &pass).unwrap();
        let clipped = x.clip(-SCALE, SCALE).unwrap();
        let float = map.forward(&clipped, &tensors, Dropout::Disabled).unwrap();
        let found = gradients(&streamed);
        assert!(found[1].iter().any(|&value| value != 0.0));
        assert_eq!(found, gradients(&float), "{generator}");
    }
}

#[test]
fn settings_of_streams_are_checked() {
    let config = ModelSource::Embedded.config().unwrap();
    let good = streams(&config, "sobol");
    let mut few = good.clone();
    few.input_scales.pop();
    let mut zero = good.clone();
    zero.input_scales[3] = 0.0;
    for (settings, part) in [(few, "number of input scales"), (zero, "input scale is 0")] {
        let error = model().with_streams(settings).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
    assert_eq!(model().with_streams(good.clone()).unwrap().streams(), Some(&good));
}

/// Four bytes for each number: the weight, and with trained weights its gradient and two moments; a
/// checkpoint repeats the weight and the moments.
#[test]
fn memory_of_trained_weights_includes_gradients_moments_and_checkpoints() {
    let model = model();
    let config = &model.config;
    let weights = u128::from(config.matrix_weights()) + (config.vocabulary * config.hidden) as u128;
    let file = Some(Path::new("state.safetensors"));
    let bytes = |trained: &Trained, file| memory_bytes(config, trained, &Device::Cpu, file);
    assert_eq!(bytes(model.trained(), None), 4 * weights);
    assert_eq!(bytes(model.trained(), file), 4 * weights);
    assert_eq!(bytes(&Trained::Weights, None), 16 * weights);
    assert_eq!(bytes(&Trained::Weights, file), 28 * weights);
    // More than every machine has is refused before anything is read.
    let large = Config { vocabulary: 1 << 40, ..config.clone() };
    let options = FinetuneOptions::default();
    let error =
        LanguageModel::check_memory(&large, &Trained::Weights, &Device::Cpu, &options).unwrap_err();
    assert!(error.to_string().contains("weights would take"), "{error}");
}
