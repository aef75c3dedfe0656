//! Throughput of the GPU backend, compared with the peak of the same device in the same run.
//!
//! ```text
//! cargo bench -p aleatron-gpu --bench gpu_bench -- [--case NAME]... [--sweep] [--quick] [--json]
//! ```
//! Each case first compares counts with the host, then measures. `ALEATRON_GPU`, `SC_GPU_ADAPTER`
//! or `--adapter` names the adapter; the results of a software adapter say nothing about
//! performance. `--sweep` compares kernel shapes, `--quick` shrinks layers.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark stops at the first error"
)]

mod residual;

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aleatron_core::backend::{Batch, CountMethod, PrepareOptions};
use aleatron_core::conformance::{Case, LayerCase, ProgramCase, Reference};
use aleatron_core::philox::philox4x32;
use aleatron_core::program::ProgramBatch;
use aleatron_core::threshold::{extend_thresholds, thresholds};
use aleatron_core::{
    Backend, Cancel, ConvShape, Convolution, DenseShape, Encoding, LayerIndex, LayerSpec, Length,
    Polarity, Quantity, SampleSeed, StreamAddress, Threshold, Weights, reference, weights,
};
use aleatron_gpu::device::ProfileRow;
use aleatron_gpu::encode::encode_timed;
use aleatron_gpu::{
    AdapterChoice, AdapterKind, Bandwidth, Capabilities, Checks, ContextOptions, CountOptions,
    GpuBackend, GpuContext, GpuConv, GpuDense, Inputs, KernelChoice, Profiler, RowGroup,
    ThresholdSource, TileShape,
};

const CASES: [&str; 9] =
    ["ceilings", "single", "large", "batch", "signed", "conv", "program", "encode", "transfer"];

/// Number of neurons that are compared with the reference.
const CHECKED_NEURONS: usize = 8;

struct Options {
    cases: Vec<String>,
    adapter: AdapterChoice,
    sweep: bool,
    quick: bool,
    json: bool,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        cases: Vec::new(),
        adapter: AdapterChoice::from_env(),
        sweep: false,
        quick: false,
        json: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--case" => options.cases.push(args.next().ok_or("--case needs a name")?),
            "--adapter" => {
                let text = args.next().ok_or("--adapter needs an index or a name")?;
                options.adapter = AdapterChoice::parse(&text);
            }
            "--sweep" => options.sweep = true,
            "--quick" => options.quick = true,
            "--json" => options.json = true,
            // `cargo bench` adds it.
            "--bench" => {}
            other => {
                return Err(format!("unknown argument {other}; cases are {}", CASES.join(", ")));
            }
        }
    }
    match options.cases.iter().find(|case| !CASES.contains(&case.as_str())) {
        Some(case) => Err(format!("unknown case {case}; cases are {}", CASES.join(", "))),
        None => Ok(options),
    }
}

/// One measurement.
struct Row {
    case: &'static str,
    what: String,
    value: f64,
    unit: &'static str,
    /// The reference value: a peak measured in this run, or a goal.
    beside: Option<(String, f64)>,
}

struct Bench {
    options: Options,
    context: Arc<GpuContext>,
    bandwidth: Bandwidth,
    rows: Vec<Row>,
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let context = match GpuContext::get(&options.adapter) {
        Ok(context) => context,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::FAILURE;
        }
    };
    let bytes = if options.quick { 16 << 20 } else { 2 << 30 };
    let bandwidth = Bandwidth::measure(&context, bytes).unwrap();
    context.trim();
    let mut bench = Bench { options, context, bandwidth, rows: Vec::new() };
    if !bench.options.json {
        println!("{}", bench.context.info());
        if bench.context.info().kind == AdapterKind::Software {
            println!("A software adapter: these results say nothing about performance.");
        }
    }
    let run = |bench: &Bench, case: &str| {
        bench.options.cases.is_empty() || bench.options.cases.iter().any(|c| c == case)
    };
    for case in CASES.into_iter().filter(|case| run(&bench, case)).collect::<Vec<_>>() {
        match case {
            "ceilings" => bench.ceilings(),
            "single" => bench.single(),
            "large" => bench.large(),
            "batch" => bench.batch(),
            "signed" => bench.signed(),
            "conv" => bench.conv(),
            "program" => bench.program(),
            "encode" => bench.encode(),
            _ => bench.transfer(),
        }
    }
    bench.report();
    ExitCode::SUCCESS
}

/// A layer with random weights, and a batch of random inputs.
struct Layer {
    layer: GpuDense,
    weights: Vec<Threshold>,
    values: Vec<f64>,
}

const WEIGHT_SEED: u64 = 0x5eed;
const INPUTS: StreamAddress = StreamAddress::input(0xace1, 0, 0);

impl Layer {
    fn new(context: &Arc<GpuContext>, n_inputs: usize, n_neurons: usize, n_samples: usize) -> Self {
        let shape =
            DenseShape::new(n_inputs, n_neurons, Length::new(1024).unwrap(), Polarity::Unipolar)
                .unwrap();
        let mut row = vec![0.0; n_inputs];
        let mut drawn = Vec::with_capacity(shape.n_weights());
        for neuron in 0..n_neurons {
            weights::fill_row(
                WEIGHT_SEED,
                LayerIndex::ALONE,
                neuron as u32,
                Polarity::Unipolar,
                &mut row,
            );
            drawn.extend(thresholds(&row, Polarity::Unipolar, Quantity::Weight).unwrap());
        }
        let first = StreamAddress::weight(WEIGHT_SEED, 0, 0);
        let layer = GpuDense::from_thresholds(context, shape, n_samples, &drawn, first).unwrap();
        let values = (0..n_inputs * n_samples).map(draw).collect();
        Self { layer, weights: drawn, values }
    }

    /// Returns the samples `0..n` of the batch, as thresholds.
    fn inputs(&self, n: usize) -> Vec<Threshold> {
        let values = &self.values[..n * self.layer.shape().n_inputs()];
        thresholds(values, Polarity::Unipolar, Quantity::Value).unwrap()
    }

    /// Panics if a count differs from the host's, for some neurons of some samples.
    fn check(&self, n_samples: usize) {
        let shape = *self.layer.shape();
        let (n, n_neurons) = (shape.n_inputs(), shape.n_neurons());
        let inputs = self.inputs(n_samples);
        let counts = self.layer.counts(&inputs, INPUTS).unwrap();
        assert_eq!(counts.len(), n_samples * n_neurons);
        let some = |of: usize| [0, of / 3, of - 1];
        for sample in some(n_samples) {
            let x = encode_row(&inputs[sample * n..][..n], INPUTS.at_row(sample as u32));
            for neuron in some(n_neurons) {
                let first = StreamAddress::weight(WEIGHT_SEED, 0, neuron as u32);
                let w = encode_row(&self.weights[neuron * n..][..n], first);
                let count: u64 =
                    w.iter().zip(&x).map(|(w, x)| u64::from((w & x).count_ones())).sum();
                assert_eq!(
                    counts[sample * n_neurons + neuron],
                    count,
                    "sample {sample}, neuron {neuron}"
                );
            }
        }
    }
}

/// A convolution with random weights, and a batch of random images.
struct Conv {
    layer: GpuConv,
    spec: LayerSpec,
    weights: Weights,
    values: Vec<f64>,
    inputs: Vec<Threshold>,
    negative: Vec<bool>,
}

impl Conv {
    fn new(context: &Arc<GpuContext>, spec: &LayerSpec, n_samples: usize) -> Self {
        let (length, polarity) = (spec.length(), spec.polarity());
        let aleatron_core::Topology::Conv(shape) = spec.topology() else {
            panic!("not a convolution")
        };
        let shape: ConvShape = *shape;
        let weights = Weights::random(spec, WEIGHT_SEED).unwrap();
        let drawn = thresholds(weights.values(), polarity, Quantity::Weight).unwrap();
        let first = StreamAddress::weight(WEIGHT_SEED, 0, 0);
        let mut words = Vec::with_capacity(spec.weight_words());
        for (row, drawn) in (0..).zip(drawn.chunks(shape.kernel_weights())) {
            for (unit, &threshold) in (0..).zip(drawn) {
                let address = first.at_row(row).at_unit(unit);
                words.extend_from_slice(reference::encode(threshold, length, address).words());
            }
        }
        let signs = |values: &[f64]| match polarity {
            Polarity::Signed => values.iter().map(|&value| polarity.is_negative(value)).collect(),
            Polarity::Unipolar | Polarity::Bipolar => Vec::new(),
        };
        let [low, high] = polarity.interval();
        let values: Vec<f64> =
            (0..spec.n_inputs() * n_samples).map(|i| low + (high - low) * draw(i)).collect();
        let layer = GpuConv::from_words(
            context,
            shape,
            length,
            polarity,
            n_samples,
            &words,
            &signs(weights.values()),
        );
        let inputs = thresholds(&values, polarity, Quantity::Value).unwrap();
        let (layer, negative, spec) = (layer.unwrap(), signs(&values), spec.clone());
        Self { layer, spec, weights, values, inputs, negative }
    }

    fn counts(&self, options: CountOptions<'_>) -> Vec<u64> {
        let inputs =
            Inputs::Thresholds { source: ThresholdSource::Slice(&self.inputs), first: INPUTS };
        self.layer.counts_with(inputs, &self.negative, options).unwrap()
    }

    /// Panics if a count of the first channel of the first or the last image differs from the
    /// reference's.
    fn check(&self) {
        let counts = self.counts(CountOptions::default());
        let n = self.spec.n_inputs();
        let n_samples = self.values.len() / n;
        let n_positions = self.spec.neurons_per_row();
        let spec = self.spec.neurons(0..n_positions).unwrap();
        let weights = self.weights.neurons(&self.spec, 0..n_positions);
        for sample in [0, n_samples - 1] {
            let case = LayerCase {
                weights: spec.weight_thresholds(&weights).unwrap(),
                inputs: spec.input_thresholds(&self.values[sample * n..][..n]).unwrap(),
                spec: spec.clone(),
                seed: SampleSeed::new(0xace1).starting_at(sample as u32),
                method: CountMethod::Bits,
            };
            let got = &counts[sample * self.spec.n_neurons()..][..n_positions];
            assert_eq!(got, Reference.answer(&Case::Layer(case)), "image {sample}");
        }
    }
}

/// Encodes streams of 1024 bits, plane by plane; `main` compares it with the reference.
fn encode_row(thresholds: &[Threshold], first: StreamAddress) -> Vec<u32> {
    let mut words = Vec::with_capacity(32 * thresholds.len());
    for (unit, threshold) in (0..).zip(thresholds) {
        for word in 0..32 {
            let (mut ones, mut undecided) = (0u32, u32::MAX);
            if *threshold == Threshold::ONE {
                (ones, undecided) = (u32::MAX, 0);
            }
            for plane in 0..32 {
                if undecided == 0 {
                    break;
                }
                let draw = philox4x32(first.at_unit(unit).counter(word, plane / 4), first.key());
                let u = draw[plane as usize % 4];
                if threshold.get() >> (31 - plane) & 1 == 1 {
                    ones |= undecided & !u;
                    undecided &= u;
                } else {
                    undecided &= !u;
                }
            }
            words.push(ones);
        }
    }
    words
}

/// Returns random number `i` in [0, 1).
fn draw(i: usize) -> f64 {
    f64::from(philox4x32([i as u32, 1, 2, 3], [4, 5])[0]) / 4_294_967_296.0
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Runs until the device has left its idle clocks.
fn warm_up(mut run: impl FnMut()) {
    let start = Instant::now();
    for runs in 0.. {
        run();
        if runs > 0 && start.elapsed() > Duration::from_millis(150) {
            break;
        }
    }
}

fn time(repeat: usize, mut run: impl FnMut()) -> Duration {
    warm_up(&mut run);
    let one = |run: &mut dyn FnMut()| {
        let start = Instant::now();
        run();
        start.elapsed()
    };
    median((0..repeat).map(|_| one(&mut run)).collect())
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

impl Bench {
    fn row(&mut self, case: &'static str, what: impl Into<String>, value: f64, unit: &'static str) {
        self.push(case, what, value, unit, None);
    }

    fn push(
        &mut self,
        case: &'static str,
        what: impl Into<String>,
        value: f64,
        unit: &'static str,
        beside: Option<(&str, f64)>,
    ) {
        let beside = beside.map(|(name, value)| (name.to_owned(), value));
        let row = Row { case, what: what.into(), value, unit, beside };
        if !self.options.json {
            print_row(&row);
        }
        self.rows.push(row);
    }

    fn repeat(&self, n: usize) -> usize {
        if self.options.quick { n.div_ceil(50).max(3) } else { n }
    }

    fn report(&self) {
        if self.options.json {
            let rows: Vec<_> = self
                .rows
                .iter()
                .map(|row| {
                    serde_json::json!({
                        "case": row.case, "what": row.what, "value": row.value, "unit": row.unit,
                        "beside": row.beside.as_ref().map(|(name, value)| {
                            serde_json::json!({"name": name, "value": value, "ratio": row.value / value})
                        }),
                    })
                })
                .collect();
            let adapter = self.context.info().to_string();
            println!("{}", serde_json::json!({"adapter": adapter, "rows": rows}));
        }
    }

    /// Measures the peaks of the device.
    fn ceilings(&mut self) {
        let half = Threshold::from_probability(0.3).unwrap();
        let first = StreamAddress::input(7, 0, 3);
        let host = encode_row(&[half], first);
        let stream = reference::encode(half, Length::new(1024).unwrap(), first);
        let words = stream.words().iter().flat_map(|word| [*word as u32, (word >> 32) as u32]);
        assert!(words.eq(host), "the host encoder of this benchmark is wrong");

        for megabytes in [16u64, 64, 256, 2047] {
            if self.options.quick && megabytes > 16 {
                continue;
            }
            let measured = Bandwidth::measure(&self.context, megabytes << 20).unwrap();
            self.row("ceilings", format!("read {megabytes} MiB"), measured.read / 1e9, "GB/s");
            self.row("ceilings", format!("copy {megabytes} MiB"), measured.copy / 1e9, "GB/s");
        }
        let context = Arc::clone(&self.context);
        let n = self.repeat(300);
        let empty = time(n, || {
            context.recorder(None).unwrap().submit().unwrap();
            context.finish().unwrap();
        });
        self.row("ceilings", "empty submission and wait", micros(empty), "us");
        context.trim();
    }

    /// Measures one sample, from probabilities to counts.
    fn single(&mut self) {
        for (n_inputs, n_neurons, goal) in
            [(64, 32, None), (512, 256, Some(65.0)), (1000, 500, Some(80.0))]
        {
            let layer = Layer::new(&self.context, n_inputs, n_neurons, 1);
            layer.check(1);
            let name = format!("{n_inputs}x{n_neurons}");
            let micro = micros(self.end_to_end(&layer, 1, 500));
            self.push(
                "single",
                format!("{name} end to end"),
                micro,
                "us",
                goal.map(|goal| ("goal", goal)),
            );
            self.kernels("single", &name, &layer, 1);
            if self.options.sweep {
                let mut layer = layer;
                for rows in RowGroup::ALL {
                    layer.layer = layer.layer.with_kernel(KernelChoice::Rows(rows));
                    self.kernels("single", &format!("{name} rows {}", rows.rows()), &layer, 1);
                }
                self.single_variants(n_inputs, n_neurons, &name);
            }
        }
    }

    /// Measures the same without mapped buffers, without subgroups, and without spinning.
    fn single_variants(&mut self, n_inputs: usize, n_neurons: usize, name: &str) {
        let all = Capabilities::ALL;
        let variants = [
            (
                "staged",
                ContextOptions {
                    capabilities: Capabilities { mapped_buffers: false, ..all },
                    ..ContextOptions::default()
                },
            ),
            (
                "without subgroups",
                ContextOptions {
                    capabilities: Capabilities { subgroups: false, ..all },
                    ..ContextOptions::default()
                },
            ),
            (
                "sleeping",
                ContextOptions { spin: Some(Duration::ZERO), ..ContextOptions::default() },
            ),
        ];
        for (variant, options) in variants {
            let context = GpuContext::open(&self.options.adapter, &options).unwrap();
            let layer = Layer::new(&context, n_inputs, n_neurons, 1);
            let micro = micros(self.end_to_end(&layer, 1, 500));
            self.row("single", format!("{name} end to end, {variant}"), micro, "us");
        }
    }

    /// Measures values to counts; values are converted as the chunks of the batch need them.
    fn end_to_end(&self, layer: &Layer, n_samples: usize, repeat: usize) -> Duration {
        let n = layer.layer.shape().n_inputs();
        time(self.repeat(repeat), || {
            let counts = layer.layer.counts_filled(n_samples, INPUTS, |samples, out| {
                let values = &layer.values[samples.start * n..samples.end * n];
                Ok(extend_thresholds(values, Polarity::Unipolar, Quantity::Value, out)?)
            });
            std::hint::black_box(counts.unwrap());
        })
    }

    /// Returns the median time of each kernel of a call, in order.
    fn kernel_times(
        &self,
        layer: &Layer,
        n_samples: usize,
        repeat: usize,
    ) -> Vec<(String, Duration, u64)> {
        let inputs = layer.inputs(n_samples);
        let mut profiler = Profiler::new(layer.layer.context()).unwrap();
        let mut runs: Vec<Vec<(String, Duration, u64)>> = Vec::new();
        warm_up(|| drop(layer.layer.counts(&inputs, INPUTS).unwrap()));
        for _ in 0..self.repeat(repeat) {
            profiler.reset();
            let source = ThresholdSource::Slice(&inputs);
            let inputs = Inputs::Thresholds { source, first: INPUTS };
            layer.layer.counts_with(inputs, CountOptions::profiled(&mut profiler)).unwrap();
            let row = |row: &ProfileRow| (row.kernel.to_string(), row.time, row.bytes);
            runs.push(profiler.rows().iter().map(row).collect());
        }
        let times = |k: usize| median(runs.iter().map(|run| run[k].1).collect());
        runs[0]
            .iter()
            .enumerate()
            .map(|(k, (kernel, _, bytes))| (kernel.clone(), times(k), *bytes))
            .collect()
    }

    fn kernels(&mut self, case: &'static str, name: &str, layer: &Layer, n_samples: usize) {
        for (kernel, time, bytes) in self.kernel_times(layer, n_samples, 100) {
            let rate = bytes as f64 / time.as_secs_f64() / 1e9;
            let read = self.bandwidth.read / 1e9;
            self.row(case, format!("{name} {kernel}"), micros(time), "us");
            self.push(case, format!("{name} {kernel}, memory"), rate, "GB/s", Some(("read", read)));
        }
    }

    /// Measures one sample of a layer far larger than any cache.
    fn large(&mut self) {
        let n = if self.options.quick { 256 } else { 4096 };
        let mut layer = Layer::new(&self.context, n, n, 1);
        layer.check(1);
        let rows: &[RowGroup] = if self.options.sweep { &RowGroup::ALL } else { &[RowGroup::Four] };
        for &rows in rows {
            layer.layer = layer.layer.with_kernel(KernelChoice::Rows(rows));
            let times = self.kernel_times(&layer, 1, 30);
            let time = times.iter().find(|(kernel, ..)| kernel == "accumulate").unwrap().1;
            // Weights alone: the least that must be read.
            let rate = layer.layer.shape().weight_bytes() as f64 / time.as_secs_f64() / 1e9;
            let read = self.bandwidth.read / 1e9;
            let what = format!("{n}x{n} accumulate, {} rows", rows.rows());
            self.push("large", what, rate, "GB/s", Some(("read", read)));
        }
        let micro = micros(self.end_to_end(&layer, 1, 30));
        self.row("large", format!("{n}x{n} end to end"), micro, "us");
        drop(layer);
        self.context.trim();
    }

    /// Measures many samples: bit products per second, in the kernel and end to end.
    fn batch(&mut self) {
        let cases = if self.options.quick {
            [(100, 70, 40, 100.0), (128, 130, 70, 150.0)]
        } else {
            [(1000, 500, 256, 100.0), (2048, 2048, 1024, 150.0)]
        };
        for (n_inputs, n_neurons, n_samples, goal) in cases {
            let mut layer = Layer::new(&self.context, n_inputs, n_neurons, n_samples);
            let products = n_inputs as f64 * n_neurons as f64 * n_samples as f64 * 1024.0;
            let name = format!("{n_inputs}x{n_neurons} x {n_samples}");
            if self.options.sweep {
                for shape in TileShape::CANDIDATES {
                    if shape.workgroup_bytes() > self.context.info().workgroup_bytes {
                        continue;
                    }
                    for workgroups in [1024, 4096, 8192, 16384] {
                        layer.layer =
                            layer.layer.with_kernel(KernelChoice::Tiles(shape, workgroups));
                        layer.check(n_samples);
                        let time = self.tile_time(&layer, n_samples, 5);
                        let what = format!("{name} {shape}, {workgroups}");
                        self.push(
                            "batch",
                            what,
                            products / time.as_secs_f64() / 1e12,
                            "Tbit-MAC/s",
                            Some(("goal", goal)),
                        );
                    }
                }
                layer.layer = layer.layer.with_kernel(KernelChoice::Auto);
            }
            layer.check(n_samples);
            let rate = |time: Duration| products / time.as_secs_f64() / 1e12;
            let unchecked = rate(self.tile_time(&layer, n_samples, 20));
            self.push(
                "batch",
                format!("{name} tile"),
                unchecked,
                "Tbit-MAC/s",
                Some(("goal", goal)),
            );
            let checked = rate(self.checked_tile_time(n_inputs, n_neurons, n_samples));
            let what = format!("{name} tile, checked at run time");
            self.push("batch", what, checked, "Tbit-MAC/s", Some(("unchecked", unchecked)));
            let kernels: Duration =
                self.kernel_times(&layer, n_samples, 20).iter().map(|(_, time, _)| *time).sum();
            self.row("batch", format!("{name} all kernels"), micros(kernels), "us");
            let micro = micros(self.end_to_end(&layer, n_samples, 20));
            self.push(
                "batch",
                format!("{name} end to end"),
                micro,
                "us",
                Some(("kernels", micros(kernels))),
            );
            drop(layer);
            self.context.trim();
        }
    }

    /// Measures a signed dense layer from values to counts, for one sample and for many.
    fn signed(&mut self) {
        let [n_inputs, n_neurons, n_samples] =
            if self.options.quick { [100, 70, 40] } else { [1000, 500, 256] };
        let encoding = Encoding::Bernoulli { seed: WEIGHT_SEED };
        let spec = LayerSpec::dense(
            n_inputs,
            n_neurons,
            Length::new(1024).unwrap(),
            Polarity::Signed,
            encoding,
        )
        .unwrap();
        let weights = Weights::random(&spec, WEIGHT_SEED).unwrap();
        let options = PrepareOptions { max_batch: n_samples, ..PrepareOptions::default() };
        let layer =
            GpuBackend::on(Arc::clone(&self.context)).prepare(&spec, &weights, &options).unwrap();
        let draw = |i: usize| 2.0 * draw(i) - 1.0;
        let values: Vec<f64> = (0..n_inputs * n_samples).map(draw).collect();
        let seed = SampleSeed::new(0xace1);
        let counts = layer.counts(&Batch::values(&values, seed), Cancel::NEVER).unwrap();
        // The reference counts one bit at a time, so only some neurons are compared.
        let few = spec.neurons(0..CHECKED_NEURONS).unwrap();
        let few_weights = weights.neurons(&spec, 0..CHECKED_NEURONS);
        for sample in [0, n_samples - 1] {
            let case = LayerCase {
                weights: few.weight_thresholds(&few_weights).unwrap(),
                inputs: few.input_thresholds(&values[sample * n_inputs..][..n_inputs]).unwrap(),
                spec: few.clone(),
                seed: seed.starting_at(sample as u32),
                method: CountMethod::Bits,
            };
            let got = &counts[sample * n_neurons..][..CHECKED_NEURONS];
            assert_eq!(got, Reference.answer(&Case::Layer(case)), "sample {sample}");
        }
        for (n, goal) in [(1, 250.0), (n_samples, 2500.0)] {
            let batch = Batch::values(&values[..n * n_inputs], seed);
            let whole =
                time(self.repeat(50), || drop(layer.counts(&batch, Cancel::NEVER).unwrap()));
            let what = format!("{n_inputs}x{n_neurons} x {n}, values to counts");
            self.push("signed", what, micros(whole), "us", Some(("goal", goal)));
        }
    }

    /// Compares a small residual network with the reference, which counts one bit at a time.
    fn check_program(&self) {
        let (size, n_samples) = (8, 2);
        let program = Arc::new(residual::network(size, 1, 128).unwrap());
        let backend = GpuBackend::on(Arc::clone(&self.context));
        let prepared = backend.prepare_program(&program, &PrepareOptions::default()).unwrap();
        let values: Vec<f64> =
            (0..3 * size * size * n_samples).map(|i| (i % 97) as f64 / 96.0).collect();
        let (seed, slots) = (SampleSeed::new(0xace1), program.outputs().to_vec());
        let batch = ProgramBatch { inputs: &[&values], n_samples, seed, group: 1 };
        let output =
            prepared.expect("a resident program").run(&batch, &slots, Cancel::NEVER).unwrap();
        let got: Vec<u64> = output.slots.iter().flat_map(|slot| slot.to_words()).collect();
        let case = ProgramCase { program, inputs: vec![values], seed, slots };
        assert_eq!(got, Reference.answer(&Case::Program(case)), "scores");
    }

    /// Measures a residual network in integer arithmetic, resident on the device: images per
    /// second.
    fn program(&mut self) {
        let (size, blocks, n_samples) = if self.options.quick { (8, 1, 6) } else { (32, 3, 1024) };
        let program = Arc::new(residual::network(size, blocks, 128).unwrap());
        let options = PrepareOptions { max_batch: n_samples, ..PrepareOptions::default() };
        let backend = GpuBackend::on(Arc::clone(&self.context));
        let prepared =
            backend.prepare_program(&program, &options).unwrap().expect("a resident program");
        let n_features = 3 * size * size;
        let values: Vec<f64> = (0..n_features * n_samples).map(draw).collect();
        let (seed, slots) = (SampleSeed::new(0xace1), program.outputs());
        let run = |n: usize| {
            let batch =
                ProgramBatch { inputs: &[&values[..n * n_features]], n_samples: n, seed, group: 1 };
            prepared.run(&batch, slots, Cancel::NEVER).unwrap()
        };
        self.check_program();
        for (n, goal) in [(1, None), (n_samples, Some(("goal", 6000.0)))] {
            let whole = time(self.repeat(10), || drop(run(n)));
            let what = format!("{} layers, {size}x{size}, 128 bits x {n}", program.layers().len());
            self.push("program", what, n as f64 / whole.as_secs_f64(), "images/s", goal);
        }
        let batch = ProgramBatch { inputs: &[&values], n_samples, seed, group: 1 };
        for row in prepared.profile(&batch, slots, Cancel::NEVER).unwrap() {
            let what = format!("{} x {}, all of {n_samples} images", row.name, row.launches);
            self.row("program", what, micros(row.time), "us");
        }
    }

    /// Measures a convolution of as many channels as kernels over a batch of images: bit products
    /// per second in the kernel.
    fn conv(&mut self) {
        let [channels, size, n_samples] =
            if self.options.quick { [3, 7, 5] } else { [64, 32, 256] };
        let convolution =
            Convolution::conv2d([channels, size, size], channels, [3, 3]).with_padding([1, 1]);
        let (length, encoding) =
            (Length::new(256).unwrap(), Encoding::Bernoulli { seed: WEIGHT_SEED });
        for polarity in Polarity::ALL {
            let spec = LayerSpec::conv(convolution, length, polarity, encoding).unwrap();
            let layer = Conv::new(&self.context, &spec, n_samples);
            layer.check();
            let products = 64.0 * spec.product_words() as f64 * layer.layer.chunk() as f64;
            let rate = products / layer.layer.time_kernel(20).unwrap().as_secs_f64() / 1e12;
            let what =
                format!("{channels}->{channels}, 3x3, {size}x{size} x {n_samples}, {polarity}");
            self.push("conv", format!("{what}, kernel"), rate, "Tbit-MAC/s", Some(("goal", 100.0)));
            let whole = time(self.repeat(10), || drop(layer.counts(CountOptions::default())));
            self.row("conv", format!("{what}, thresholds to counts"), micros(whole), "us");
            drop(layer);
            self.context.trim();
        }
    }

    /// Returns the time of the tile kernel on a device that compiles every kernel with run-time
    /// checks.
    fn checked_tile_time(&self, n_inputs: usize, n_neurons: usize, n_samples: usize) -> Duration {
        let options = ContextOptions { checks: Checks::Always, ..ContextOptions::default() };
        let context = GpuContext::open(&self.options.adapter, &options).unwrap();
        let layer = Layer::new(&context, n_inputs, n_neurons, n_samples);
        layer.check(n_samples);
        self.tile_time(&layer, n_samples, 20)
    }

    fn tile_time(&self, layer: &Layer, n_samples: usize, repeat: usize) -> Duration {
        let times = self.kernel_times(layer, n_samples, repeat);
        times.iter().find(|(kernel, ..)| kernel == "tile").unwrap().1
    }

    /// Measures 256 samples of 1000 streams of 1024 bits.
    fn encode(&mut self) {
        let (n_rows, n_units) = if self.options.quick { (8, 100) } else { (256, 1000) };
        let values: Vec<f64> = (0..n_rows * n_units).map(draw).collect();
        let thresholds = thresholds(&values, Polarity::Unipolar, Quantity::Value).unwrap();
        let int32 = ContextOptions {
            capabilities: Capabilities { int64: false, ..Capabilities::ALL },
            ..ContextOptions::default()
        };
        let other = GpuContext::open(&self.options.adapter, &int32).unwrap();
        let length = Length::new(1024).unwrap();
        for (name, context) in [("int64", Arc::clone(&self.context)), ("int32", other)] {
            let (output, time) =
                encode_timed(&context, &thresholds, n_units, length, INPUTS, self.repeat(50))
                    .unwrap();
            for row in [0, n_rows / 3, n_rows - 1] {
                let expected =
                    encode_row(&thresholds[row * n_units..][..n_units], INPUTS.at_row(row as u32));
                let words: &[u32] =
                    bytemuck::cast_slice(&output.words()[row * n_units * 16..][..n_units * 16]);
                assert_eq!(words, expected, "row {row}");
            }
            let what = format!("{n_rows}x{n_units}x1024 bits, {name}");
            self.push("encode", what, micros(time), "us", Some(("goal", 250.0)));
        }
    }

    /// Measures the host: conversion of values, and transfer of counts.
    fn transfer(&mut self) {
        let n = if self.options.quick { 10_000 } else { 256_000 };
        let values: Vec<f64> = (0..n).map(|i| i as f64 / n as f64).collect();
        let time = time(self.repeat(50), || {
            std::hint::black_box(thresholds(&values, Polarity::Unipolar, Quantity::Value).unwrap());
        });
        self.row("transfer", format!("{n} values to thresholds"), micros(time), "us");
        let context = Arc::clone(&self.context);
        let buffer = context.buffer::<u32>(n).unwrap();
        let data = vec![1u32; n];
        let write = self::time(self.repeat(50), || {
            buffer.write(0, &data).unwrap();
            context.finish().unwrap();
        });
        self.row("transfer", format!("write {} kB", 4 * n / 1000), micros(write), "us");
        let read =
            self::time(self.repeat(50), || drop(std::hint::black_box(buffer.read().unwrap())));
        self.row("transfer", format!("read {} kB", 4 * n / 1000), micros(read), "us");
    }
}

fn print_row(row: &Row) {
    let beside = row.beside.as_ref().map_or_else(String::new, |(name, value)| {
        format!("{:>8.3} of {name} {value:.1}", row.value / value)
    });
    println!("{:<10}{:<58}{:>12.2} {:<11}{beside}", row.case, row.what, row.value, row.unit);
}
