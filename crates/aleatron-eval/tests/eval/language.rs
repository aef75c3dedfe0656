//! Language models as streams: products, samples, chunks, losses and errors, on the small models of
//! `aleatron-transformer`.

use aleatron_core::generator::WidthChoice;
use aleatron_core::{Cancel, LayerIndex, SampleSeed};
use aleatron_engine::StreamLayer;
use aleatron_engine::network::{LayerOverride, StreamConfig};
use aleatron_eval::Error;
use aleatron_eval::language::{
    InputScales, LanguageEvaluation, LanguagePlan, LanguageText, ProductSelection, Sensitivity,
    StreamProducts, evaluate_language_model,
};
use aleatron_transformer::{
    DeviceChoice, LinearId, LinearProduct, LinearProducts, LoadOptions, Logits, Precision,
    ProductOutcome, Segment, TokenPosition, Transformer,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

const CONTEXT: usize = 100;
pub(crate) const TOKENS: [u32; 11] = [1, 5, 17, 130, 4, 4, 99, 56, 23, 42, 7];
const TEXT: &str = "the cat and the hat: 5 € for the naïve, and then the cat sat on the mat with a hat and the other cat";

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../aleatron-transformer/tests/golden").join(name)
}

pub(crate) fn load(name: &str) -> Transformer {
    let options = LoadOptions { device: DeviceChoice::Cpu, precision: Precision::F32, merge: None };
    Transformer::from_pretrained(&folder(name), &options).unwrap()
}

pub(crate) fn scales(model: &mut Transformer, share: f64) -> InputScales {
    InputScales::measure(model.pass(), &TOKENS, CONTEXT, share, Cancel::NEVER).unwrap()
}

fn products(
    model: &mut Transformer,
    scales: &InputScales,
    streams: &StreamConfig,
    selection: ProductSelection,
) -> Arc<StreamProducts> {
    let pass = model.pass();
    Arc::new(StreamProducts::new(pass, scales, streams, CONTEXT, selection, Cancel::NEVER).unwrap())
}

pub(crate) fn streams(generator: &str, length: usize) -> StreamConfig {
    StreamConfig::new(length).generator(generator.parse().unwrap()).seed(7)
}

/// Returns the logits of tokens as sequence `number`, in chunks of these lengths.
fn logits(model: &mut Transformer, tokens: &[u32], number: u64, chunk: usize) -> Vec<f32> {
    let pass = model.pass();
    let sequence = pass.open().unwrap();
    pass.set_sequence_number(sequence, number).unwrap();
    let mut all = Vec::new();
    for tokens in tokens.chunks(chunk) {
        all.extend(pass.forward(&[Segment { sequence, tokens }], Logits::All).unwrap());
    }
    pass.close(sequence);
    all
}

/// One product of a pass.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Recorded {
    pub(crate) linear: LinearId,
    pub(crate) inputs: Vec<f32>,
    positions: Vec<TokenPosition>,
    pub(crate) outputs: Vec<f32>,
}

/// Passes products on, and records them.
#[derive(Debug)]
struct Recorder {
    inner: Arc<StreamProducts>,
    seen: Mutex<Vec<Recorded>>,
}

impl LinearProducts for Recorder {
    fn product(
        &self,
        product: &LinearProduct<'_>,
        outputs: &mut [f32],
    ) -> aleatron_transformer::Result<ProductOutcome> {
        let outcome = self.inner.product(product, outputs)?;
        self.seen.lock().unwrap().push(Recorded {
            linear: product.linear,
            inputs: product.inputs.to_vec(),
            positions: product.positions.to_vec(),
            outputs: outputs.to_vec(),
        });
        Ok(outcome)
    }
}

/// Returns the products of a pass over [`TOKENS`] as sequence 3.
pub(crate) fn record(model: &mut Transformer, inner: Arc<StreamProducts>) -> Vec<Recorded> {
    let recorder = Arc::new(Recorder { inner, seen: Mutex::new(Vec::new()) });
    model.pass().set_linear_products(Some(Arc::clone(&recorder) as _)).unwrap();
    logits(model, &TOKENS, 3, TOKENS.len());
    model.pass().set_linear_products(None).unwrap();
    recorder.seen.lock().unwrap().clone()
}

/// Returns the weights of a product over the largest of their row, and these.
fn rows_by_hand(weights: &[f32], n: usize) -> (Vec<f64>, Vec<f64>) {
    let largest = |row: &[f32]| row.iter().fold(0.0_f64, |most, w| most.max(f64::from(w.abs())));
    let scales: Vec<f64> = weights.chunks(n).map(largest).collect();
    let scaled = weights.iter().enumerate().map(|(k, &w)| f64::from(w) / scales[k / n]);
    (scaled.collect(), scales)
}

#[test]
fn products_are_the_counts_of_stream_layers() {
    for name in ["llama", "gpt2"] {
        for generator in ["bernoulli", "sobol", "bernoulli+sobol:2"] {
            let mut model = load(name);
            // Three in ten inputs saturate.
            let scales = scales(&mut model, 0.7);
            let mut config = streams(generator, 96);
            let own: LayerOverride = "length=40,width=6".parse().unwrap();
            config.layers.insert("layers.1.up".to_owned(), own);
            let seen = {
                let products = products(&mut model, &scales, &config, ProductSelection::All);
                record(&mut model, products)
            };
            let all = LinearId::all(model.config());
            assert_eq!(
                seen.iter().map(|product| product.linear).collect::<Vec<_>>(),
                all,
                "{name}"
            );
            for (index, product) in seen.iter().enumerate() {
                let [m, n] = product.linear.shape(model.config());
                let (weights, rows) =
                    rows_by_hand(&model.pass().linear_weights(product.linear).unwrap(), n);
                let is_own = product.linear.to_string() == "layers.1.up";
                let length = if is_own { 40 } else { 96 };
                let layer = StreamLayer::dense(n, m)
                    .signed()
                    .length(length)
                    .generator(generator.parse().unwrap());
                // The automatic width of 96 bits.
                let width = if is_own { "6" } else { "5" };
                let layer = layer.width(width.parse::<WidthChoice>().unwrap());
                let layer = layer
                    .seed(7)
                    .at(LayerIndex::new(index).unwrap())
                    .weights(&weights)
                    .build()
                    .unwrap();
                for (row, position) in product.positions.iter().enumerate() {
                    assert_eq!(*position, TokenPosition { sequence: 3, position: row });
                    let x = product.inputs[row * n..][..n].iter();
                    let x: Vec<f64> = x
                        .map(|&x| (f64::from(x) / scales.scales[index]).clamp(-1.0, 1.0))
                        .collect();
                    let seed = SampleSeed::new(7).starting_at((3 * CONTEXT + row) as u32);
                    let values = layer.decode(&layer.counts(&x, seed).unwrap());
                    let values = values
                        .iter()
                        .zip(&rows)
                        .map(|(v, row)| (v * (scales.scales[index] * row)) as f32);
                    let values: Vec<f32> = values.collect();
                    let what = format!("{name}, {generator}, {}, row {row}", product.linear);
                    assert_eq!(product.outputs[row * m..][..m], values, "{what}");
                }
            }
        }
    }
}

#[test]
fn chunks_batches_and_caches_change_no_bit() {
    for name in ["llama", "gpt2", "qwen2"] {
        for generator in ["bernoulli", "sobol"] {
            let mut model = load(name);
            let scales = scales(&mut model, 0.999);
            let products =
                products(&mut model, &scales, &streams(generator, 64), ProductSelection::All);
            model.pass().set_linear_products(Some(products)).unwrap();
            let whole = logits(&mut model, &TOKENS, 2, TOKENS.len());
            assert_eq!(
                logits(&mut model, &TOKENS, 2, 3),
                whole,
                "{name}, {generator}, chunks of 3"
            );
            assert_eq!(logits(&mut model, &TOKENS, 2, 1), whole, "{name}, {generator}, one by one");
            let other = logits(&mut model, &TOKENS, 5, TOKENS.len());
            // Sequences without a seed have the same streams in every sample.
            assert_eq!(
                other == whole,
                generator == "sobol",
                "{name}, {generator}, another sequence"
            );

            // In a batch, after another sequence, and again after the cache was truncated.
            let pass = model.pass();
            let [first, second] = [5, 2].map(|number| {
                let sequence = pass.open().unwrap();
                pass.set_sequence_number(sequence, number).unwrap();
                sequence
            });
            let segments = [first, second].map(|sequence| Segment { sequence, tokens: &TOKENS });
            let both = pass.forward(&segments, Logits::All).unwrap();
            assert_eq!(both[..other.len()], other, "{name}, {generator}, batch");
            assert_eq!(both[other.len()..], whole, "{name}, {generator}, batch");
            pass.truncate(second, 4).unwrap();
            let fork = pass.fork(second).unwrap();
            for sequence in [second, fork] {
                let rest = pass
                    .forward(&[Segment { sequence, tokens: &TOKENS[4..] }], Logits::All)
                    .unwrap();
                assert_eq!(
                    rest,
                    whole[4 * whole.len() / TOKENS.len()..],
                    "{name}, {generator}, cache"
                );
            }
            let last = pass.open().unwrap();
            pass.set_sequence_number(last, 2).unwrap();
            let last =
                pass.forward(&[Segment { sequence: last, tokens: &TOKENS }], Logits::Last).unwrap();
            assert_eq!(last, whole[whole.len() - last.len()..], "{name}, {generator}, last logits");
        }
    }
}

#[test]
fn numbers_of_threads_change_no_bit() {
    let run = |threads: usize| {
        aleatron_cpu::set_num_threads(threads).unwrap();
        let mut model = load("llama");
        let scales = scales(&mut model, 0.999);
        let products =
            products(&mut model, &scales, &streams("bernoulli", 4096), ProductSelection::All);
        model.pass().set_linear_products(Some(products)).unwrap();
        logits(&mut model, &TOKENS, 0, TOKENS.len())
    };
    let one = run(1);
    assert_eq!(run(2), one);
    assert_eq!(run(3), one);
    aleatron_cpu::set_num_threads(2).unwrap();
}

/// A product bit of a Bernoulli layer is 1 with probability p = |w| |x|, independently for each
/// input and cycle, so that a sum of n products over L cycles has the variance `sum of p (1 - p) /
/// L`. With the head alone as streams, its inputs are those of floating point, and the logits are
/// such sums. Under the normal approximation the largest of 1441 |z| is above 5.5 with a
/// probability below 1441 * 3.8e-8 = 5.5e-5, dependent or not (union bound). The mean of z^2 is 1;
/// logits of one position share input streams, which correlates them, so only an interval of a
/// factor 1.5 is asked for: it excludes a variance that is wrong by a factor of 2.
#[test]
fn logits_with_streams_in_the_head_have_the_binomial_variance() {
    for name in ["llama", "gpt2"] {
        let mut model = load(name);
        let scales = scales(&mut model, 1.0);
        let float = logits(&mut model, &TOKENS, 0, TOKENS.len());
        let length = 1024;
        let selection = ProductSelection::Only(LinearId::Head);
        let products = products(&mut model, &scales, &streams("bernoulli", length), selection);
        let seen = record(&mut model, products);
        let product = seen.iter().find(|product| product.linear == LinearId::Head).unwrap();
        let [m, n] = product.linear.shape(model.config());
        let (weights, rows) =
            rows_by_hand(&model.pass().linear_weights(LinearId::Head).unwrap(), n);
        let scale = scales.scales[LinearId::Head.index(model.config())];
        let (mut largest, mut squares) = (0.0_f64, 0.0);
        for (k, (&streamed, &float)) in product.outputs.iter().zip(&float).enumerate() {
            let (x, w) = (&product.inputs[k / m * n..][..n], &weights[k % m * n..][..n]);
            let p = x.iter().zip(w).map(|(&x, w)| (f64::from(x) / scale * w).abs());
            let variance = p.map(|p| p * (1.0 - p)).sum::<f64>() / length as f64;
            let z = f64::from(streamed - float) / (scale * rows[k % m] * variance.sqrt());
            largest = largest.max(z.abs());
            squares += z * z / float_len(&product.outputs);
        }
        assert!(largest < 5.5, "{name}: {largest}");
        assert!((1.0 / 1.5..1.5).contains(&squares), "{name}: {squares}");
    }
}

fn float_len(values: &[f32]) -> f64 {
    values.len() as f64
}

/// The errors of all products are random with variances in proportion to 1 / L, and small ones pass
/// through the layers linearly: 16 times longer streams have a quarter of the error in the logits.
/// The mean square over 4 seeds and 1441 logits has a relative deviation of a few per cent; an
/// interval from 3 to 5.3 excludes a bias, which would not shrink, and a noise of another order.
#[test]
fn logits_converge_to_floating_point_with_the_root_of_the_length() {
    for name in ["llama", "gpt2"] {
        let mut model = load(name);
        let scales = scales(&mut model, 1.0);
        let float = logits(&mut model, &TOKENS, 0, TOKENS.len());
        let mut error = |length: usize| {
            let mut squares = 0.0;
            for seed in 0..4 {
                let config = streams("bernoulli", length).seed(seed);
                let products = products(&mut model, &scales, &config, ProductSelection::All);
                model.pass().set_linear_products(Some(products)).unwrap();
                let streamed = logits(&mut model, &TOKENS, 0, TOKENS.len());
                model.pass().set_linear_products(None).unwrap();
                squares +=
                    streamed.iter().zip(&float).map(|(a, b)| f64::from(a - b).powi(2)).sum::<f64>();
            }
            (squares / (4.0 * float_len(&float))).sqrt()
        };
        let (short, long) = (error(1 << 11), error(1 << 15));
        assert!((3.0..5.3).contains(&(short / long)), "{name}: {short} to {long}");
    }
}

#[test]
fn calibration_covers_its_share_of_inputs() {
    let mut model = load("llama");
    for (share, expected) in [(1.0, 0.0), (0.9, 0.1), (0.5, 0.5)] {
        let scales = scales(&mut model, share);
        assert_eq!((scales.tokens, scales.scales.len()), (TOKENS.len(), 9));
        let first = LinearId::all(model.config())[0];
        let products =
            products(&mut model, &scales, &streams("sobol", 16), ProductSelection::Only(first));
        model.pass().set_linear_products(Some(Arc::clone(&products) as _)).unwrap();
        logits(&mut model, &TOKENS, 0, TOKENS.len());
        model.pass().set_linear_products(None).unwrap();
        let seen = products.saturation();
        assert_eq!(seen.len(), 1);
        assert_eq!(seen[0].inputs, (TOKENS.len() * model.config().hidden) as u64);
        assert!(
            (seen[0].share() - expected).abs() < 1.5 / seen[0].inputs as f64,
            "{share}: {}",
            seen[0].share()
        );
        assert_eq!(seen[0].warning(model.config()).is_some(), expected > 0.02);
    }
}

fn evaluate(model: &mut Transformer, plan: &LanguagePlan) -> Result<LanguageEvaluation, Error> {
    let text = LanguageText::new("cats", TEXT, &model.tokenizer().unwrap().clone())?;
    evaluate_language_model("qwen2", model, &text, plan, None, Cancel::NEVER, |_| ())
}

fn plan(lengths: &[usize], generators: &[&str]) -> LanguagePlan {
    let generators = generators.iter().map(|name| name.parse().unwrap()).collect();
    LanguagePlan {
        lengths: lengths.to_vec(),
        generators,
        context: Some(16),
        ..LanguagePlan::default()
    }
}

/// Returns the loss of the model in floating point, window by window.
fn loss_by_hand(model: &mut Transformer, tokens: &[u32]) -> f64 {
    let (n, mut nats) = (tokens.len() - 1, 0.0);
    for start in (0..n).step_by(16) {
        let end = n.min(start + 16);
        let logits = model.forward(&tokens[start..end], None).unwrap();
        for (row, &target) in logits.chunks(131).zip(&tokens[start + 1..=end]) {
            let sum: f64 = row.iter().map(|&logit| f64::from(logit).exp()).sum();
            nats += sum.ln() - f64::from(row[target as usize]);
        }
    }
    nats / n as f64
}

#[test]
fn evaluation_has_a_row_for_each_generator_and_length() {
    let mut model = load("qwen2");
    let found = evaluate(&mut model, &plan(&[256, 64, 64], &["bernoulli", "sobol"])).unwrap();
    let text = LanguageText::new("cats", TEXT, model.tokenizer().unwrap()).unwrap();
    let split = text.split(None, None).unwrap();
    assert_eq!(split.calibration, 0..text.tokens().len() / 10);
    assert_eq!(found.calibration_tokens, split.calibration.len());
    assert_eq!(found.predicted_tokens, text.tokens().len() - split.calibration.len() - 1);
    let expected = loss_by_hand(&mut model, &text.tokens()[split.evaluation.clone()]);
    assert!((found.float.loss - expected).abs() < 1e-9, "{} {expected}", found.float.loss);
    assert_eq!(found.float.perplexity, found.float.loss.exp());
    let bits =
        found.float.loss * found.predicted_tokens as f64 / 2f64.ln() / found.predicted_bytes as f64;
    assert!((found.float.bits_per_byte.unwrap() - bits).abs() < 1e-12);
    // The text after the tokens of calibration and the first token.
    let head =
        model.tokenizer().unwrap().decode(&text.tokens()[..=split.calibration.len()]).unwrap();
    assert_eq!(found.predicted_bytes, TEXT.len() - head.len());

    let rows: Vec<_> = found
        .rows
        .iter()
        .map(|row| (row.generator.as_str(), row.length, row.seeds.len()))
        .collect();
    assert_eq!(
        rows,
        [("bernoulli", 64, 3), ("bernoulli", 256, 3), ("sobol", 64, 1), ("sobol", 256, 1)]
    );
    let widths: Vec<_> = found.rows.iter().map(|row| row.width).collect();
    assert_eq!(widths, [None, None, Some(5), Some(7)]);
    for row in &found.rows {
        assert!(row.loss.low <= row.loss.mean && row.loss.mean <= row.loss.high);
        assert!((row.added_loss - (row.loss.mean - found.float.loss)).abs() < 1e-12);
        assert!((0.0..=1.0).contains(&row.agreement) && row.saturated < 0.5);
    }
    assert!(found.rows[0].seeds[0].loss != found.rows[0].seeds[1].loss);
    assert!(found.is_complete());
    // Longer streams agree more often.
    assert!(found.rows[1].agreement > found.rows[0].agreement, "{:?}", found.rows);
    let table = found.text(usize::MAX);
    for part in
        ["float", "bernoulli", "sobol", "nats/token", "bits/byte", "perplexity", "the first"]
    {
        assert!(table.contains(part), "{part}: {table}");
    }
    assert_eq!(found.to_csv().lines().count(), 6);
    let json: serde_json::Value = serde_json::from_str(&found.to_json().unwrap()).unwrap();
    assert_eq!(json["rows"][3]["length"], 256);
}

/// The automatic width is one bit less than the largest power of two within the length, and at most
/// 8 bits.
#[test]
fn automatic_width_follows_from_the_length() {
    let mut model = load("qwen2");
    let mut run = |length: usize, generator: &str, width: &str| {
        let width = width.parse().unwrap();
        let plan = LanguagePlan { width, seeds: 1, ..plan(&[length], &[generator]) };
        let found = evaluate(&mut model, &plan).unwrap();
        (found.rows[0].width, found.rows[0].loss.mean)
    };
    for (length, width) in [(8, 2), (63, 5), (64, 5), (100, 5), (128, 6), (512, 8), (1024, 8)] {
        for generator in ["sobol", "halton"] {
            let automatic = run(length, generator, "auto");
            assert_eq!(
                automatic,
                run(length, generator, &width.to_string()),
                "{generator}, {length} bits"
            );
            assert_eq!(automatic.0, Some(width));
        }
    }
    // A register needs the bits of its seed, and random bits are not a shared sequence.
    assert_eq!(run(64, "lfsr:300+lfsr:7", "auto").0, Some(9));
    assert_eq!(run(64, "sobol", "10").0, Some(10));
    assert_eq!(run(64, "bernoulli", "auto").0, None);
}

#[test]
fn evaluation_does_not_depend_on_chunks() {
    let mut model = load("qwen2");
    let losses = |model: &mut Transformer, chunk: usize| {
        let plan = LanguagePlan { chunk, seeds: 2, ..plan(&[64], &["bernoulli"]) };
        let found = evaluate(model, &plan).unwrap();
        let losses: Vec<f64> = found.rows[0].seeds.iter().map(|run| run.loss).collect();
        (found.float.loss, losses)
    };
    let whole = losses(&mut model, 1000);
    assert_eq!(losses(&mut model, 3), whole);
    assert_eq!(losses(&mut model, 1), whole);
}

#[test]
fn sensitivity_runs_each_product_alone() {
    let mut model = load("qwen2");
    let plan = LanguagePlan { sensitivity: Sensitivity::Enabled, ..plan(&[16, 64], &["sobol"]) };
    let found = evaluate(&mut model, &plan).unwrap();
    let products: Vec<_> = found.sensitivity.iter().map(|row| row.product.clone()).collect();
    let all: Vec<_> = LinearId::all(model.config()).iter().map(ToString::to_string).collect();
    assert_eq!(products, all);
    assert!(found.sensitivity.iter().all(|row| row.length == 16 && row.loss != found.float.loss));
    // No product alone changes as many predictions as all together.
    let together = found.rows[0].agreement;
    assert!(
        found.sensitivity.iter().all(|row| row.agreement >= together),
        "{:?}",
        found.sensitivity
    );
}

#[test]
fn products_with_lengths_of_their_own_have_one_row() {
    let mut model = load("qwen2");
    let mut plan = plan(&[16, 64], &["sobol"]);
    for linear in LinearId::all(model.config()) {
        plan.layers.insert(linear.to_string(), "length=128".parse().unwrap());
    }
    let own = evaluate(&mut model, &plan).unwrap();
    assert_eq!(own.rows.iter().map(|row| row.length).collect::<Vec<_>>(), [128]);
    assert!(
        own.text(80).contains("Product layers.0.qkv: length=128 in every row"),
        "{}",
        own.text(80)
    );
    assert!(aleatron_eval::report::language(&own).contains("Product head: length=128"));
    plan.layers.clear();
    plan.lengths = vec![128];
    assert_eq!(evaluate(&mut model, &plan).unwrap().rows[0].loss, own.rows[0].loss);
}

#[test]
fn cancelled_evaluation_returns_its_finished_runs() {
    let mut model = load("qwen2");
    let text = LanguageText::new("cats", TEXT, &model.tokenizer().unwrap().clone()).unwrap();
    let pressed = std::sync::atomic::AtomicBool::new(false);
    let is_pressed = || pressed.load(std::sync::atomic::Ordering::Relaxed);
    let plan = LanguagePlan { seeds: 3, ..plan(&[64], &["bernoulli", "sobol"]) };
    let found = evaluate_language_model(
        "m",
        &mut model,
        &text,
        &plan,
        None,
        Cancel::when(&is_pressed),
        |progress| {
            let rows = progress
                .evaluation
                .map_or(0, |found| found.rows.iter().map(|row| row.seeds.len()).sum());
            pressed.store(rows == 2, std::sync::atomic::Ordering::Relaxed);
        },
    );
    let found = found.unwrap();
    assert_eq!((found.rows[0].seeds.len(), found.rows.len(), found.unfinished), (2, 1, 2));
    assert!(found.text(80).contains("unfinished: 2 runs to go"));
    // The pass is in floating point again.
    let float = logits(&mut load("qwen2"), &TOKENS, 0, 4);
    assert_eq!(logits(&mut model, &TOKENS, 0, 4), float);
}

/// Streams of 2^34 bits of every weight fit into no memory.
#[test]
fn failed_evaluation_retains_its_finished_runs() {
    let mut model = load("qwen2");
    match evaluate(&mut model, &plan(&[64, 1 << 34], &["bernoulli"])) {
        Err(error @ Error::UnfinishedLanguage { .. }) => {
            assert!(matches!(error.core(), Some(aleatron_core::Error::Memory { .. })), "{error}");
            let Error::UnfinishedLanguage { done, .. } = error else { panic!() };
            assert_eq!((done.rows.len(), done.rows[0].seeds.len(), done.unfinished), (1, 3, 3));
        }
        other => panic!("{other:?}"),
    }
}

#[track_caller]
fn assert_says<T: std::fmt::Debug>(result: Result<T, Error>, parts: &[&str]) {
    let error = result.unwrap_err().to_string();
    assert!(parts.iter().all(|part| error.contains(part)), "{error}");
}

#[test]
fn errors_name_the_value_and_the_remedy() {
    let mut model = load("qwen2");
    let tokenizer = model.tokenizer().unwrap().clone();
    let new = |text: &str| LanguageText::new("t.txt", text, &tokenizer);
    assert_says(new(""), &["t.txt", "empty", "three tokens"]);
    // The token that begins a text and one more.
    assert_says(new("a").unwrap().split(None, None), &["t.txt: 2 tokens", "longer text"]);
    assert_eq!(new("ab").unwrap().split(None, None).unwrap().predicted(), 1);
    assert_says(new(TEXT).unwrap().split(Some(0), None), &["calibration tokens: 0"]);
    assert_says(new(TEXT).unwrap().split(None, Some(0)), &["predicted tokens: 0"]);
    assert_says(new(TEXT).unwrap().split(Some(usize::MAX), None), &["longer text"]);
    assert_eq!(new(TEXT).unwrap().split(Some(5), Some(3)).unwrap().evaluation, 5..9);

    let path = std::env::temp_dir().join(format!("aleatron-language-{}", std::process::id()));
    std::fs::write(&path, b"abc\xff").unwrap();
    assert_says(LanguageText::read(&path, &tokenizer), &["not UTF-8 at byte 3", "iconv"]);
    std::fs::remove_file(&path).unwrap();
    assert_says(LanguageText::read(&path, &tokenizer), &["aleatron-language"]);
    assert_says(LanguageText::read(&std::env::temp_dir(), &tokenizer), &["not a regular file"]);

    let mut check = |change: &dyn Fn(&mut LanguagePlan), parts: &[&str]| {
        let mut plan = plan(&[64], &["sobol"]);
        change(&mut plan);
        assert_says(evaluate(&mut model, &plan), parts);
    };
    check(&|plan| plan.context = Some(257), &["context: 257", "1 to 256"]);
    check(&|plan| plan.context = Some(0), &["context: 0"]);
    check(&|plan| plan.share = 0.0, &["quantile: 0"]);
    check(&|plan| plan.share = f64::NAN, &["quantile: NaN"]);
    check(&|plan| plan.lengths.clear(), &["lengths"]);
    check(&|plan| plan.generators.clear(), &["generators"]);
    check(&|plan| plan.seeds = 0, &["seeds"]);
    check(&|plan| plan.seeds = usize::MAX, &["seeds"]);
    check(&|plan| plan.chunk = 0, &["chunk"]);
    check(&|plan| plan.lengths = vec![0], &["length"]);
    let own = |name: &str| ("length=8".parse::<LayerOverride>().unwrap(), name.to_owned());
    let (layer, name) = own("layers.2.qkv");
    check(
        &|plan| plan.layers.extend([(name.clone(), layer)]),
        &["layers.2.qkv", "unknown", "head"],
    );
}

#[test]
fn positions_beyond_the_limits_are_errors() {
    let mut model = load("llama");
    let scales = scales(&mut model, 1.0);
    let products = products(&mut model, &scales, &streams("bernoulli", 16), ProductSelection::All);
    let [m, n] = LinearId::Head.shape(model.config());
    let (inputs, mut outputs) = (vec![0.5; n], vec![0.0; m]);
    let mut run = |sequence: u64, position: usize| {
        let positions = [TokenPosition { sequence, position }];
        let product =
            LinearProduct { linear: LinearId::Head, inputs: &inputs, positions: &positions };
        products.product(&product, &mut outputs).map_err(|error| error.to_string())
    };
    // Sample 2^32 - 1 is the last: 42949672 * 100 + 95.
    assert_eq!(run(42_949_672, 95), Ok(ProductOutcome::Computed));
    assert!(run(42_949_672, 96).unwrap_err().contains("4294967296"));
    assert!(run(u64::MAX, 0).is_err());
    let error = run(0, CONTEXT).unwrap_err();
    assert!(error.contains("product \"head\"") && error.contains("context of 100"), "{error}");
    let positions = [TokenPosition { sequence: 0, position: 0 }];
    let short =
        LinearProduct { linear: LinearId::Head, inputs: &inputs[1..], positions: &positions };
    assert!(products.product(&short, &mut outputs).is_err());
    let mut nan = inputs.clone();
    nan[3] = f32::NAN;
    let product = LinearProduct { linear: LinearId::Head, inputs: &nan, positions: &positions };
    assert!(products.product(&product, &mut outputs).unwrap_err().to_string().contains("NaN"));
}
