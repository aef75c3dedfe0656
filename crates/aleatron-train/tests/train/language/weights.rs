//! Fine-tuning of all weights, and the models that it writes.

use super::*;
use aleatron_transformer::weights::tensors;

/// A source with one changed weight.
#[derive(Debug)]
struct Moved<'a> {
    source: &'a dyn TensorSource,
    name: String,
    index: usize,
    by: f32,
}

impl TensorSource for Moved<'_> {
    fn tensor(&self, name: &str, shape: &[usize]) -> aleatron_transformer::Result<Vec<f32>> {
        let mut values = self.source.tensor(name, shape)?;
        if name == self.name {
            values[self.index] += self.by;
        }
        Ok(values)
    }
}

fn trainable(model: &Model) -> LanguageModel {
    LanguageModel::new(&model.loader(), Trained::Weights, &Device::Cpu).unwrap()
}

/// Parameters are all tensors of the model's files, and the first logits those of the engine.
#[test]
fn weights_are_the_tensors_of_the_files() {
    for name in ["llama", "qwen2"] {
        let model = Model::golden(name);
        let own = trainable(&model);
        assert!(own.adapter().unwrap().is_none());
        let mut expected = tensors(&model.config);
        expected.sort();
        let named = own.named_parameters().into_iter();
        let mut found: Vec<_> =
            named.map(|(name, own)| (name, own.tensor().shape().to_vec())).collect();
        found.sort();
        assert_eq!(found, expected);
        let tokens = model.tokens(9);
        let logits = own.logits(&tokens).unwrap().to_vec::<f32>().unwrap();
        // The operations are those of a model whose corrections are zero.
        let corrected = model.lora(&adapter(&model.config, 0.0));
        assert_eq!(logits, corrected.logits(&tokens).unwrap().to_vec::<f32>().unwrap());
    }
}

/// Derivatives of the loss in f64 by central differences of two widths, as for corrections, at the
/// weight with the largest gradient of each tensor. The model of `qwen2` has biases, and an
/// embedding that is its head, too.
#[test]
fn gradients_of_weights_match_finite_differences() {
    for name in ["llama", "qwen2"] {
        let model = Model::golden(name);
        let sequence = Sequence::of_tokens(model.tokens(7)).unwrap();
        let own = trainable(&model);
        own.loss(&[&sequence]).unwrap().backward().unwrap();
        let loss = |name: &str, index: usize, by: f32| {
            let source = Moved { source: &*model.source, name: name.to_owned(), index, by };
            let loader = Loader { source: &source, ..model.loader() };
            let reference = Reference::new(&loader, None);
            let trace = reference.read(sequence.tokens(), TENSORS);
            let rows = sequence.tokens().iter().skip(1).enumerate().map(|(row, &label)| {
                let logits: Vec<f64> = (0..131).map(|token| trace.logit(row, token)).collect();
                cross_entropy(&logits, label as usize).0
            });
            rows.sum::<f64>() / sequence.targets() as f64
        };
        let relative = g(roundings(&model.config));
        for (name, parameter) in own.named_parameters() {
            let gradient = parameter.grad().unwrap().to_vec::<f32>().unwrap();
            let value = parameter.tensor().detach().to_vec::<f32>().unwrap();
            let (index, largest) =
                gradient.iter().enumerate().fold((0, 0.0_f64), |most, (k, x)| {
                    if f64::from(x.abs()) > most.1 { (k, f64::from(x.abs())) } else { most }
                });
            assert!(largest > 0.0, "{name}");
            let slope = |h: f32| {
                // What f32 makes of the step.
                let [up, down] = [h, -h].map(|by| f64::from(value[index] + by));
                (loss(&name, index, h) - loss(&name, index, -h)) / (up - down)
            };
            let [wide, narrow] = [2.0 / 1024.0, 1.0 / 1024.0].map(slope);
            let expected = (4.0 * narrow - wide) / 3.0;
            // The error of the differences is of the order of h^4 = 2^-40, with the largest
            // derivative of the fifth order as its factor.
            let (actual, bound) = (f64::from(gradient[index]), relative * largest + 1e-8);
            assert!(
                (actual - expected).abs() <= bound,
                "{name} {index}: {actual}, not {expected}, {bound}"
            );
        }
    }
}

#[test]
fn trained_weights_are_saved_as_a_model() {
    for name in ["llama", "qwen2"] {
        let model = Model::golden(name);
        let source = ModelSource::Folder(golden(name));
        let (data, own) = (sequences(&model), trainable(&model));
        let adam = AdamOptions { rate: 3e-3, ..options().adam };
        let steps =
            finetune(&own, &data, &FinetuneOptions { steps: 20, adam, ..options() }).unwrap();
        assert!(steps[19].loss < steps[0].loss - 1.0, "{steps:?}");

        let path = folder(&format!("weights-{name}"));
        own.save(&path, &source).unwrap();
        let saved = ModelSource::Folder(path.clone());
        let config = saved.config().unwrap();
        let files = TensorFiles::open_model(&saved, &config).unwrap();
        for (name, parameter) in own.named_parameters() {
            let tensor = parameter.tensor().detach();
            let read = files.tensor(&name, tensor.shape()).unwrap();
            assert_eq!(read, tensor.to_vec::<f32>().unwrap(), "{name}");
        }
        let trained = Model { config, source: Box::new(files) };
        let tokens = data[0].tokens();
        let reference = Reference::new(&trained.loader(), None);
        let logits = own.logits(tokens).unwrap().to_vec::<f32>().unwrap();
        assert_logits(&reference, tokens, &logits, TENSORS, "training");
        assert_logits(&reference, tokens, &trained.engine(tokens, None), Rounding::CPU, "engine");

        // A second model replaces the first one, but nothing else.
        own.save(&path, &source).unwrap();
        let same = own.save(&path, &saved).unwrap_err().to_string();
        assert!(same.contains("folder of the model itself"), "{same}");
        std::fs::write(path.join("model-00001-of-00002.safetensors"), "").unwrap();
        let other = own.save(&path, &source).unwrap_err().to_string();
        assert!(other.contains("model-00001-of-00002.safetensors"), "{other}");
        std::fs::remove_dir_all(&path).unwrap();
    }
}

#[test]
fn training_of_weights_resumes_with_the_same_weights() {
    let model = Model::golden("qwen2");
    let (data, path) = (sequences(&model), folder("weights-resumed"));
    let whole = trainable(&model);
    let steps = finetune(&whole, &data, &options()).unwrap();
    let checkpoint = Some(path.join("state.safetensors"));
    let saved = FinetuneOptions { checkpoint, ..options() };
    let calls = AtomicUsize::new(0);
    let is_cancelled = || calls.fetch_add(1, Ordering::Relaxed) >= 3;
    let first = trainable(&model);
    let cancel = Cancel::when(&is_cancelled);
    finetune_with(&first, &data, &saved, cancel, &mut |_| {}).unwrap_err();
    let second = trainable(&model);
    assert_eq!(finetune(&second, &data, &saved).unwrap(), steps);
    assert_eq!(values(&second), values(&whole));
    // A checkpoint must be a regular file.
    let checkpoint = Some(path.clone());
    let error = finetune(&second, &data, &FinetuneOptions { checkpoint, ..options() }).unwrap_err();
    assert!(error.to_string().contains("not a regular file"), "{error}");
    // An adapter of the same model is another training.
    let error = finetune(&model.lora(&adapter(&model.config, 0.0)), &data, &saved).unwrap_err();
    assert!(error.to_string().contains("another training"), "{error}");
    std::fs::remove_dir_all(&path).unwrap();
}
