//! Fine-tuning of language models, against the engine and a model in f64.
//!
//! `reference.rs` of the transformer's tests runs a model in f64 and bounds how far the logits of a
//! pass in f32 may be from it. Products of tensors may add their terms in any order, so the bound
//! is that of sums in order.

#[path = "../../../aleatron-transformer/tests/common/reference.rs"]
#[allow(dead_code, unreachable_pub, clippy::panic)]
mod reference;
#[path = "../../../aleatron-transformer/tests/common/rounding.rs"]
#[allow(dead_code, unreachable_pub)]
mod rounding;

mod files;
mod streams;
mod weights;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

use aleatron_core::Cancel;
use aleatron_tensor::Device;
use aleatron_train::language::data::IGNORED;
use aleatron_train::language::{
    Activations, FinetuneOptions, LanguageModel, Sequence, SequenceOrder, Trained, finetune,
    finetune_with,
};
use aleatron_train::{AdamOptions, Schedule};
use aleatron_transformer::config::SlidingWindow;
use aleatron_transformer::lora::{Projection, targets};
use aleatron_transformer::weights::files::TensorFiles;
use aleatron_transformer::weights::random::{RandomTensors, sized};
use aleatron_transformer::weights::{Loader, TensorSource};
use aleatron_transformer::{
    Adapter, AdapterOptions, Config, CpuForwardPass, ForwardPass, Logits, ModelSource, Precision,
    Segment,
};
use reference::Reference;
use rounding::{Rounding, Sums, U, g};

const TENSORS: Rounding = Rounding { sums: Sums::InOrder, ..Rounding::CPU };

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../aleatron-transformer/tests/golden").join(name)
}

/// A model of the golden files.
struct Model {
    config: Config,
    source: Box<dyn TensorSource>,
}

impl Model {
    fn golden(name: &str) -> Self {
        let config = Config::read(&golden(name).join("config.json")).unwrap();
        let source =
            Box::new(TensorFiles::open_model(&ModelSource::Folder(golden(name)), &config).unwrap());
        Self { config, source }
    }

    /// Returns a random model whose later layer has a sliding window.
    fn windowed() -> Self {
        let mut config = sized("tiny").unwrap();
        config.sliding_window = Some(SlidingWindow { positions: 3, first_layer: 1 });
        Self { config, source: Box::new(RandomTensors { seed: 5 }) }
    }

    fn loader(&self) -> Loader<'_> {
        let (config, source) = (&self.config, &*self.source);
        Loader { config, source, precision: Precision::F32, merged: None }
    }

    fn lora(&self, adapter: &Adapter) -> LanguageModel {
        let trained = Trained::Adapter(adapter.clone());
        LanguageModel::new(&self.loader(), trained, &Device::Cpu).unwrap()
    }

    fn tokens(&self, n: usize) -> Vec<u32> {
        (0..n).map(|i| ((i * 37 + 11) % self.config.vocabulary) as u32).collect()
    }

    /// Returns the logits of the engine, all rows.
    fn engine(&self, tokens: &[u32], adapter: Option<&Adapter>) -> Vec<f32> {
        let mut pass = CpuForwardPass::new(&self.loader()).unwrap();
        let sequence = pass.open().unwrap();
        let adapter = adapter.map(|adapter| pass.load_adapter(adapter).unwrap());
        pass.use_adapter(sequence, adapter).unwrap();
        pass.forward(&[Segment { sequence, tokens }], Logits::All).unwrap()
    }
}

/// Returns an adapter on all projections, of rank 2 with the factor 2.
fn adapter(config: &Config, dropout: f64) -> Adapter {
    let targets = targets(config, &["all"]).unwrap();
    let options =
        AdapterOptions { rank: 2, alpha: 4.0, dropout, targets, ..AdapterOptions::default() };
    Adapter::create(config, &options, 3).unwrap()
}

/// Returns the same with corrections that matter.
fn filled(config: &Config) -> Adapter {
    let mut adapter = adapter(config, 0.0);
    let parts: Vec<_> = adapter.parts().map(|(l, p, part)| (l, p, part.clone())).collect();
    for (layer, projection, part) in parts {
        let seed = 100 + 8 * layer as u64 + projection as u64;
        let b = RandomTensors { seed }.tensor("b", &[part.b.len() / 2, 2]).unwrap();
        let b = b.iter().map(|x| 0.125 * x).collect();
        adapter.set(config, layer, projection, part.a, b).unwrap();
    }
    adapter
}

fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("aleatron-lora-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&path).unwrap();
    path
}

/// Compares logits of all rows and some tokens with a reference.
#[track_caller]
fn assert_logits(
    reference: &Reference,
    tokens: &[u32],
    logits: &[f32],
    rounding: Rounding,
    what: &str,
) {
    let trace = reference.read(tokens, rounding);
    let vocabulary = logits.len() / tokens.len();
    for (row, logits) in logits.chunks_exact(vocabulary).enumerate() {
        trace.assert_row(row, logits, (row..vocabulary).step_by(23), what);
    }
}

#[test]
fn logits_of_a_new_adapter_are_those_of_the_engine() {
    let names = ["llama", "llama-scaled", "llama-yarn", "llama-linear", "qwen2"];
    let models = names.iter().map(|name| (*name, Model::golden(name)));
    for (name, model) in models.chain([("window", Model::windowed())]) {
        let tokens = model.tokens(9);
        let reference = Reference::new(&model.loader(), None);
        let lora = model.lora(&adapter(&model.config, 0.0));
        let logits = lora.logits(&tokens).unwrap().to_vec::<f32>().unwrap();
        assert_logits(&reference, &tokens, &logits, TENSORS, name);
        assert_logits(&reference, &tokens, &model.engine(&tokens, None), Rounding::CPU, name);
    }
}

#[test]
fn window_changes_the_logits() {
    let model = Model::windowed();
    let full =
        Model { config: sized("tiny").unwrap(), source: Box::new(RandomTensors { seed: 5 }) };
    let adapter = adapter(&model.config, 0.0);
    let tokens = model.tokens(9);
    let [a, b] =
        [&model, &full].map(|m| m.lora(&adapter).logits(&tokens).unwrap().to_vec::<f32>().unwrap());
    let vocabulary = model.config.vocabulary;
    // The first three positions see all keys.
    assert_eq!(a[..3 * vocabulary], b[..3 * vocabulary]);
    assert!(
        (3..9)
            .all(|row| a[row * vocabulary..][..vocabulary] != b[row * vocabulary..][..vocabulary])
    );
}

#[test]
fn adapter_on_all_projections_changes_logits_as_in_the_engine() {
    for name in ["llama", "qwen2"] {
        let model = Model::golden(name);
        let adapter = filled(&model.config);
        let tokens = model.tokens(9);
        let reference = Reference::new(&model.loader(), Some(&adapter));
        let logits = model.lora(&adapter).logits(&tokens).unwrap().to_vec::<f32>().unwrap();
        assert_logits(&reference, &tokens, &logits, TENSORS, name);
        assert_logits(
            &reference,
            &tokens,
            &model.engine(&tokens, Some(&adapter)),
            Rounding::CPU,
            name,
        );
    }
}

/// Returns the cross entropy of logits, and the largest of them.
fn cross_entropy(logits: &[f64], label: usize) -> (f64, f64) {
    let largest = logits.iter().fold(f64::MIN, |most, x| most.max(*x));
    let total: f64 = logits.iter().map(|x| (x - largest).exp()).sum();
    (largest + total.ln() - logits[label], largest)
}

/// Roundings one upon the other: the sums of each layer forwards and backwards, and the head.
fn roundings(c: &Config) -> usize {
    let layer = 2 * (3 * c.hidden + c.query_width() + c.inner + 2 * c.head_dim + 7);
    c.layers * layer + c.hidden + c.vocabulary
}

#[test]
fn loss_is_the_mean_over_labels_that_are_not_ignored() {
    let model = Model::golden("llama");
    let adapter = filled(&model.config);
    let tokens = model.tokens(8);
    let mut labels: Vec<i64> = tokens.iter().map(|&token| i64::from(token)).collect();
    labels[1..4].fill(IGNORED);
    // Labels need not be tokens, and the first is never predicted.
    (labels[0], labels[6]) = (7, 99);
    let masked = Sequence::new(tokens, labels).unwrap();
    let short = Sequence::of_tokens(vec![5, 80, 3]).unwrap();
    assert_eq!((masked.targets(), short.targets()), (4, 2));
    let lora = model.lora(&adapter);
    for sequences in [&[&masked, &short][..], &[&short, &masked], &[&masked], &[&short]] {
        let loss = f64::from(lora.loss(sequences).unwrap().item::<f32>().unwrap());
        // Other tests compare the logits with the reference.
        let (mut sum, mut largest, mut count) = (0.0, 0.0_f64, 0.0);
        for sequence in sequences {
            let logits = lora.logits(sequence.tokens()).unwrap().to_vec::<f32>().unwrap();
            for (row, &label) in sequence.labels().iter().skip(1).enumerate() {
                let Ok(label) = usize::try_from(label) else { continue };
                let row: Vec<f64> = logits[row * 131..][..131].iter().map(|&x| x.into()).collect();
                largest = row.iter().fold(largest, |most, x| most.max(x.abs()));
                sum += cross_entropy(&row, label).0;
                count += 1.0;
            }
        }
        let expected = sum / count;
        // A batch may add in another order than a single sequence.
        let bound = g(roundings(&model.config)) * largest;
        assert!((loss - expected).abs() <= bound, "{loss} instead of {expected}, bound {bound}");
        assert!(bound < 1e-3, "{bound}");
    }
}

/// Derivatives of the loss in f64 by central differences of two widths, whose leading errors
/// cancel: what is left is of the order of h^4 = 2^-40. The parameters are f32 and the factor is 2,
/// so that the moved ones are exact.
#[test]
fn gradients_of_corrections_match_finite_differences() {
    let model = Model::golden("llama");
    let adapter = filled(&model.config);
    let sequence = Sequence::of_tokens(model.tokens(7)).unwrap();
    let lora = model.lora(&adapter);
    lora.loss(&[&sequence]).unwrap().backward().unwrap();
    let exact = |layer, projection, matrix: usize, index: usize, by: f32| {
        let mut moved = adapter.clone();
        let part = adapter.part(layer, projection).unwrap();
        let (mut a, mut b) = (part.a.clone(), part.b.clone());
        let own = if matrix == 0 { &mut a[index] } else { &mut b[index] };
        let before = *own;
        *own += by;
        let distance = f64::from(*own) - f64::from(before);
        moved.set(&model.config, layer, projection, a, b).unwrap();
        let reference = Reference::new(&model.loader(), Some(&moved));
        let trace = reference.read(sequence.tokens(), TENSORS);
        let rows = sequence.tokens().iter().skip(1).enumerate().map(|(row, &label)| {
            let logits: Vec<f64> = (0..131).map(|token| trace.logit(row, token)).collect();
            cross_entropy(&logits, label as usize).0
        });
        (rows.sum::<f64>() / sequence.targets() as f64, distance)
    };
    let slope = |layer, projection, matrix, index, h: f32| {
        let ((high, up), (low, down)) = (
            exact(layer, projection, matrix, index, h),
            exact(layer, projection, matrix, index, -h),
        );
        (high - low) / (up - down)
    };
    // Errors are relative to the sizes of the terms, for which the largest gradient of a matrix
    // stands.
    let relative = g(roundings(&model.config));
    let named = lora.named_parameters();
    for (k, (layer, projection, _)) in adapter.parts().enumerate() {
        for matrix in 0..2 {
            let module =
                aleatron_transformer::weights::module_name(&model.config, layer, projection);
            let name = format!("{module}.lora_{}.weight", ["A", "B"][matrix]);
            let (_, parameter) = named.iter().find(|(own, _)| *own == name).unwrap();
            let gradient = parameter.grad().unwrap().to_vec::<f32>().unwrap();
            let largest = gradient.iter().fold(0.0_f64, |most, x| most.max(f64::from(x.abs())));
            assert!(largest > 0.0, "{name}");
            let index = (k * 5 + matrix * 3) % gradient.len();
            let h = 1.0 / 1024.0;
            let [wide, narrow] = [2.0 * h, h].map(|h| slope(layer, projection, matrix, index, h));
            let expected = (4.0 * narrow - wide) / 3.0;
            let actual = f64::from(gradient[index]);
            let bound = relative * largest + 1e-9;
            assert!(
                (actual - expected).abs() <= bound,
                "{name} {index}: {actual}, not {expected}, {bound}"
            );
        }
    }
}

fn sequences(model: &Model) -> Vec<Sequence> {
    let all = model.tokens(60);
    [&all[..9], &all[9..14], &all[14..26], &all[26..30], &all[30..37]]
        .map(|tokens| Sequence::of_tokens(tokens.to_vec()).unwrap())
        .into()
}

fn options() -> FinetuneOptions {
    let adam = AdamOptions { rate: 1e-2, ..FinetuneOptions::default().adam };
    FinetuneOptions {
        steps: 8,
        batch: 2,
        adam,
        schedule: Schedule::Constant,
        ..FinetuneOptions::default()
    }
}

#[test]
fn trained_adapter_gives_the_engine_the_logits_of_training() {
    let model = Model::golden("llama");
    let data = sequences(&model);
    let lora = model.lora(&adapter(&model.config, 0.0));
    let steps = finetune(&lora, &data, &FinetuneOptions { steps: 30, ..options() }).unwrap();
    let mean = |steps: &[aleatron_train::language::Step]| {
        steps.iter().map(|step| step.loss).sum::<f64>() / 5.0
    };
    assert!(mean(&steps[25..]) < mean(&steps[..5]) - 1.0, "{steps:?}");
    assert_eq!(
        steps.iter().map(|step| step.step).collect::<Vec<_>>(),
        (1..=30).collect::<Vec<_>>()
    );

    let path = folder("trained");
    lora.adapter().unwrap().unwrap().save(&path, &model.config).unwrap();
    let read = Adapter::read(&path, &model.config).unwrap();
    std::fs::remove_dir_all(&path).unwrap();
    let tokens = data[0].tokens();
    let reference = Reference::new(&model.loader(), Some(&read));
    let logits = lora.logits(tokens).unwrap().to_vec::<f32>().unwrap();
    assert_logits(&reference, tokens, &logits, TENSORS, "training");
    let engine = model.engine(tokens, Some(&read));
    assert_logits(&reference, tokens, &engine, Rounding::CPU, "engine");
    assert_ne!(engine, model.engine(tokens, None));
}

#[test]
fn accumulated_batches_equal_one_batch() {
    let model = Model::golden("llama");
    let data = sequences(&model);
    let order = SequenceOrder::Sequential;
    let run = |batch, accumulation| {
        let lora = model.lora(&filled(&model.config));
        let options = FinetuneOptions { steps: 1, batch, accumulation, order, ..options() };
        finetune(&lora, &data, &options).unwrap()[0]
    };
    let (whole, parts) = (run(4, 1), run(1, 4));
    // 8, 4, 11 and 3 labels: a mean of means would be another number.
    assert_eq!((whole.targets, parts.targets), (26, 26));
    // Each label's loss is off by the same in both; sums of 26 terms, and of gradients over 30
    // rows, are in another order.
    assert!((whole.loss - parts.loss).abs() <= 2.0 * g(26 + 4) * whole.loss, "{whole:?} {parts:?}");
    assert!((whole.norm - parts.norm).abs() <= 2.0 * g(30 * 7) * whole.norm, "{whole:?} {parts:?}");
}

#[test]
fn clipping_bounds_the_update_and_reports_the_norm() {
    let model = Model::golden("llama");
    let data = sequences(&model);
    let run = |clip| {
        let lora = model.lora(&filled(&model.config));
        // With a large epsilon, the first update of Adam is the gradient over epsilon.
        let adam = AdamOptions { rate: 1.0, epsilon: 1e6, weight_decay: 0.0, ..options().adam };
        let before: Vec<Vec<f32>> = values(&lora);
        let step = finetune(&lora, &data, &FinetuneOptions { steps: 1, clip, adam, ..options() })
            .unwrap()[0];
        let moved = values(&lora)
            .concat()
            .iter()
            .zip(before.concat())
            .map(|(a, b)| f64::from(a - b).powi(2))
            .sum::<f64>();
        (step.norm, 1e6 * moved.sqrt())
    };
    let (norm, free) = run(None);
    let (same, limited) = run(Some(0.5 * norm));
    assert_eq!(norm, same);
    // Parameters of up to 1 hold updates of 1e-6 to 6e-8 / 1e-6 = 6 % each; together they are far
    // better.
    assert!((free / norm - 1.0).abs() < 0.06, "{free} {norm}");
    assert!((limited / norm - 0.5).abs() < 0.06, "{limited} {norm}");
}

fn values(lora: &LanguageModel) -> Vec<Vec<f32>> {
    lora.parameters().iter().map(|own| own.tensor().detach().to_vec::<f32>().unwrap()).collect()
}

#[test]
fn recomputed_activations_give_the_same_bits_with_dropout() {
    let model = Model::golden("qwen2");
    let data = sequences(&model);
    let run = |activations, dropout, seed| {
        let lora = model.lora(&adapter(&model.config, dropout));
        let steps =
            finetune(&lora, &data, &FinetuneOptions { activations, seed, ..options() }).unwrap();
        (steps, values(&lora))
    };
    let retained = run(Activations::Retained, 0.25, 1);
    assert_eq!(retained, run(Activations::Recomputed, 0.25, 1));
    assert_ne!(retained.1, run(Activations::Retained, 0.0, 1).1);
    assert_ne!(retained.1, run(Activations::Retained, 0.25, 2).1);
}

/// With half of the inputs dropped and the others doubled, the mean of the corrections stays. Over
/// 256 masks of the first step, the losses of a small correction have the loss without dropout as
/// their mean, to first order.
#[test]
fn dropout_keeps_the_mean() {
    let model = Model::golden("llama");
    let data = sequences(&model)[..1].to_vec();
    let scaled = |dropout| {
        let mut own = adapter(&model.config, dropout);
        let full = filled(&model.config);
        for (layer, projection, part) in full.parts() {
            let b = part.b.iter().map(|x| x / 64.0).collect();
            own.set(&model.config, layer, projection, part.a.clone(), b).unwrap();
        }
        own
    };
    let loss = |dropout, seed| {
        let options = FinetuneOptions { steps: 1, batch: 1, seed, ..options() };
        finetune(&model.lora(&scaled(dropout)), &data, &options).unwrap()[0].loss
    };
    let plain = loss(0.0, 0);
    let losses: Vec<f64> = (0..256).map(|seed| loss(0.5, seed)).collect();
    let mean = losses.iter().sum::<f64>() / 256.0;
    let variance = losses.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / 255.0;
    // Five deviations of the mean, and the second order: the square of the deviation, for
    // curvatures up to 4.
    let bound = 5.0 * (variance / 256.0).sqrt() + 4.0 * variance;
    assert!(variance > 0.0 && (mean - plain).abs() < bound, "{mean} {plain} {bound}");
    assert!(bound < 0.01 * plain, "{bound}");
}

#[test]
fn resumed_training_gives_the_bits_of_an_uninterrupted_one() {
    let model = Model::golden("llama");
    let data = sequences(&model);
    let path = folder("resume");
    let start = adapter(&model.config, 0.1);
    let whole = model.lora(&start);
    let expected = finetune(&whole, &data, &options()).unwrap();
    let saved = FinetuneOptions { checkpoint: Some(path.join("state")), ..options() };

    let first = model.lora(&start);
    let done = AtomicUsize::new(0);
    let is_enough = || done.load(Ordering::Relaxed) == 3;
    let stopped = finetune_with(&first, &data, &saved, Cancel::when(&is_enough), &mut |_| {
        done.fetch_add(1, Ordering::Relaxed);
    });
    assert!(matches!(stopped, Err(aleatron_train::Error::Core(aleatron_core::Error::Cancelled))));
    let second = model.lora(&start);
    assert_eq!(finetune(&second, &data, &saved).unwrap(), expected);
    assert_eq!(values(&second), values(&whole));
    // A finished training is not repeated.
    let third = model.lora(&start);
    assert_eq!(finetune(&third, &data, &saved).unwrap(), expected);
    assert_eq!(values(&third), values(&whole));

    let others = [
        (adapter(&model.config, 0.2), data.clone(), saved.clone()),
        (filled(&model.config), data.clone(), saved.clone()),
        (start.clone(), data[1..].to_vec(), saved.clone()),
        (start.clone(), data.clone(), FinetuneOptions { seed: 1, ..saved.clone() }),
    ];
    for (adapter, data, options) in others {
        let refused = finetune(&model.lora(&adapter), &data, &options).unwrap_err().to_string();
        assert!(refused.contains("another training"), "{refused}");
    }
    std::fs::remove_dir_all(&path).unwrap();
}

#[test]
fn new_adapter_is_uniform_and_does_nothing() {
    let model = Model::golden("llama");
    let adapter = adapter(&model.config, 0.0);
    for (_, projection, part) in adapter.parts() {
        let bound = (projection.shape(&model.config)[1] as f32).sqrt().recip();
        let largest = part.a.iter().fold(0.0_f32, |most, x| most.max(x.abs()));
        assert!(
            largest <= bound * (1.0 + 2.0 * U as f32) && largest > 0.8 * bound,
            "{largest} {bound}"
        );
        assert!(part.b.iter().all(|&x| x == 0.0));
    }
    assert!(
        adapter.part(0, Projection::Query).unwrap().a
            != adapter.part(1, Projection::Query).unwrap().a
    );
}

#[test]
fn options_out_of_range_and_other_families_are_errors() {
    let model = Model::golden("llama");
    let (data, lora) = (sequences(&model), model.lora(&adapter(&model.config, 0.0)));
    let refused = |options: FinetuneOptions, data: &[Sequence]| {
        finetune(&lora, data, &options).unwrap_err().to_string()
    };
    assert!(refused(FinetuneOptions { steps: 0, ..options() }, &data).contains("steps is 0"));
    assert!(refused(FinetuneOptions { batch: 0, ..options() }, &data).contains("batch is 0"));
    assert!(
        refused(FinetuneOptions { accumulation: 0, ..options() }, &data)
            .contains("accumulation is 0")
    );
    assert!(
        refused(FinetuneOptions { batch: usize::MAX, ..options() }, &data).contains("too large")
    );
    assert!(refused(FinetuneOptions { clip: Some(0.0), ..options() }, &data).contains("positive"));
    assert!(refused(options(), &[]).contains("number of sequences is 0"));
    let outside = Sequence::of_tokens(vec![1, 131]).unwrap();
    assert!(refused(options(), &[outside]).contains("131 for a vocabulary of 131"));
    let label = Sequence::new(vec![1, 2], vec![1, -1]).unwrap();
    assert!(refused(options(), &[label]).contains("label is -1"));
    let long = Sequence::of_tokens(vec![1; model.config.max_positions + 1]).unwrap();
    assert!(refused(options(), &[long]).contains("positions of the model"));
    let nowhere = FinetuneOptions { checkpoint: Some("/missing/folder/state".into()), ..options() };
    assert!(refused(nowhere, &data).contains("does not exist"));
    let huge = AdamOptions { rate: 1e30, ..options().adam };
    assert!(
        refused(FinetuneOptions { adam: huge, ..options() }, &data)
            .contains("smaller learning rate")
    );

    let gpt2 = Model::golden("gpt2");
    let adapter = adapter(&gpt2.config, 0.0);
    let error = LanguageModel::new(&gpt2.loader(), Trained::Adapter(adapter), &Device::Cpu)
        .unwrap_err()
        .to_string();
    assert!(error.contains("Gpt2") && error.contains("Qwen2"), "{error}");
    let empty =
        LanguageModel::new(&model.loader(), Trained::Adapter(Adapter::default()), &Device::Cpu)
            .unwrap_err()
            .to_string();
    assert!(empty.contains("at least one"), "{empty}");
}
