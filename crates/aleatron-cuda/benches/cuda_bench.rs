//! Throughput of CUDA GPUs, compared with Vulkan on the same machine in the same run.
//!
//! ```text
//! cargo bench -p aleatron-cuda --bench cuda_bench -- [--case NAME]... [--device I] [--variants SM_80.PTX SM_90A.PTX] [--quick] [--no-vulkan]
//! ```
//! Every result is compared with the CPU's before it is timed. A failing row prints its reason, and
//! the others continue; the program then ends with a failure. `--variants` takes kernels compiled
//! by `cargo xtask ptx --variants FOLDER` and compares their shapes.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use aleatron_core::backend::{
    Batch, DeviceBatch, DeviceElement, InputOrder, PrepareOptions, PreparedLayer,
};
use aleatron_core::program::{ProgramBatch, ProgramBuilder, SlotData, ValueRange};
use aleatron_core::{
    Backend, Cancel, Convolution, Encoding, LayerSpec, Length, Polarity, SampleSeed, Weights,
};
use aleatron_cpu::CpuBackend;
use aleatron_cuda::array::CudaArray;
use aleatron_cuda::measure::{self, FewTrial, FewVariant, TileTrial, TileVariant};
use aleatron_cuda::{ContextOptions, CudaBackend, CudaContext, CudaLayer, Profiler, TileShape};
use aleatron_gpu::{AdapterChoice, Bandwidth, GpuBackend, GpuContext};

type Failure = Box<dyn std::error::Error>;

const CASES: [&str; 7] = ["ceilings", "tiles", "batch", "kinds", "single", "encode", "large"];
const SEED: SampleSeed = SampleSeed::new(0xace1);

struct Options {
    cases: Vec<String>,
    device: usize,
    variants: Option<[String; 2]>,
    quick: bool,
    vulkan: bool,
}

fn options() -> Result<Options, Failure> {
    let mut options =
        Options { cases: Vec::new(), device: 0, variants: None, quick: false, vulkan: true };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut next = || arguments.next().ok_or(format!("{argument} needs a value"));
        match argument.as_str() {
            "--case" => options.cases.push(next()?),
            "--device" => options.device = next()?.parse()?,
            "--variants" => {
                let files = [next()?, next()?];
                let [sm_80, sm_90a] = files.map(std::fs::read_to_string);
                options.variants = Some([sm_80?, sm_90a?]);
            }
            "--quick" => options.quick = true,
            "--no-vulkan" => options.vulkan = false,
            // `cargo bench` adds it.
            "--bench" => {}
            other => return Err(format!("unknown argument {other}").into()),
        }
    }
    match options.cases.iter().find(|case| !CASES.contains(&case.as_str())) {
        Some(case) => Err(format!("unknown case {case}; cases are {}", CASES.join(", ")).into()),
        None => Ok(options),
    }
}

/// The reference value of a measurement.
#[derive(Clone, Copy)]
enum Bar {
    AtLeast(f64),
    AtMost(f64),
    None,
}

struct Bench {
    options: Options,
    context: Arc<CudaContext>,
    vulkan: Option<GpuBackend>,
    failures: u32,
}

impl Bench {
    /// Prints a measurement, and that of Vulkan if available.
    fn show(&self, what: &str, value: f64, unit: &str, bar: Bar, vulkan: Option<f64>) {
        let verdict = match bar {
            Bar::AtLeast(least) => {
                format!("{} (at least {least})", if value >= least { "met" } else { "MISSED" })
            }
            Bar::AtMost(most) => {
                format!("{} (at most {most})", if value <= most { "met" } else { "MISSED" })
            }
            Bar::None => String::new(),
        };
        let vulkan = vulkan.map_or_else(String::new, |value| format!("Vulkan {value:.1}"));
        println!("  {what:<66}{value:>10.1} {unit:<13}{verdict:<26}{vulkan}");
    }

    /// Runs a row; an error is printed, and the other rows continue.
    fn row(&mut self, what: &str, run: impl FnOnce(&Self) -> Result<(), Failure>) {
        if let Err(error) = run(self) {
            println!("  {what:<66}FAILED: {error}");
            self.failures += 1;
        }
    }
}

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failures) => {
            println!("{failures} rows failed");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<u32, Failure> {
    let options = options()?;
    let context = CudaContext::get(options.device)?;
    println!("{:?}", context.info());
    let vulkan = match (options.vulkan, GpuBackend::open(&AdapterChoice::from_env())) {
        (false, _) => None,
        (true, Ok(vulkan)) => Some(vulkan),
        (true, Err(error)) => {
            println!("no Vulkan: {error}");
            None
        }
    };
    let mut bench = Bench { options, context, vulkan, failures: 0 };
    for case in CASES {
        if !bench.options.cases.is_empty()
            && !bench.options.cases.iter().any(|wanted| wanted == case)
        {
            continue;
        }
        println!("{case}");
        let start = Instant::now();
        match case {
            "ceilings" => bench.ceilings(),
            "tiles" => bench.tiles(),
            "batch" => bench.batch(),
            "kinds" => bench.kinds(),
            "single" => bench.single(),
            "encode" => bench.encode(),
            _ => bench.large(),
        }
        println!("  ({case} took {:.1} s)", start.elapsed().as_secs_f64());
    }
    Ok(bench.failures)
}

fn us(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

/// Returns the best and the median of many runs, in microseconds.
fn times(mut work: impl FnMut() -> Result<(), Failure>) -> Result<[f64; 2], Failure> {
    for _ in 0..3 {
        work()?;
    }
    let (start, mut all) = (Instant::now(), Vec::new());
    while all.len() < 5 || (all.len() < 2000 && start.elapsed() < Duration::from_millis(400)) {
        let once = Instant::now();
        work()?;
        all.push(us(once.elapsed()));
    }
    all.sort_by(f64::total_cmp);
    Ok([all[0], all[all.len() / 2]])
}

/// A layer with its inputs, and the CPU's counts of the first and last samples.
struct Known {
    spec: LayerSpec,
    weights: Weights,
    values: Vec<f64>,
    n_samples: usize,
}

impl Known {
    fn new(
        n_inputs: usize,
        n_neurons: usize,
        n_samples: usize,
        bits: usize,
    ) -> Result<Self, Failure> {
        let encoding = Encoding::Bernoulli { seed: 0x5eed };
        let spec = LayerSpec::dense(
            n_inputs,
            n_neurons,
            Length::new(bits)?,
            Polarity::Unipolar,
            encoding,
        )?;
        Self::of(spec, n_samples)
    }

    /// Creates a layer of any kind.
    fn of(spec: LayerSpec, n_samples: usize) -> Result<Self, Failure> {
        let weights = Weights::random(&spec, 0x5eed)?;
        let [low, high] = spec.polarity().interval();
        let value = |i: usize| low + (high - low) * ((i * 7919 % 10_007) as f64 / 10_007.0);
        let values = (0..spec.n_inputs() * n_samples).map(value).collect();
        Ok(Self { spec, weights, values, n_samples })
    }

    fn batch(&self) -> Batch<'_> {
        Batch::values(&self.values, SEED)
    }

    fn options(&self) -> PrepareOptions<'static> {
        PrepareOptions { max_batch: self.n_samples, ..PrepareOptions::default() }
    }

    /// Compares counts with the CPU's: all of small layers, otherwise those of the first and the
    /// last samples.
    fn check(&self, counts: &[u64]) -> Result<(), Failure> {
        let (m, n) = (self.spec.n_neurons(), self.n_samples);
        if counts.len() != n * m {
            return Err(format!("{} counts, not {}", counts.len(), n * m).into());
        }
        let cpu = CpuBackend::CURRENT.prepare(&self.spec, &self.weights, &self.options())?;
        let some = 24.min(n);
        for (start, end) in [(0, some), (n - some, n)] {
            let batch = self.batch().samples(&self.spec, start, end)?;
            if cpu.counts(&batch, Cancel::NEVER)? != counts[start * m..end * m] {
                return Err(
                    format!("counts of samples {start} to {end} differ from the CPU's").into()
                );
            }
        }
        Ok(())
    }

    /// Returns the best time of Vulkan, if available, after checking that counts are equal.
    fn vulkan(&self, bench: &Bench) -> Option<f64> {
        let backend = bench.vulkan.as_ref()?;
        let run = || -> Result<f64, Failure> {
            let layer = backend.prepare(&self.spec, &self.weights, &self.options())?;
            self.check(&layer.counts(&self.batch(), Cancel::NEVER)?)?;
            Ok(times(|| layer.counts(&self.batch(), Cancel::NEVER).map(drop).map_err(Into::into))?
                [0])
        };
        run().map_err(|error| println!("  Vulkan: {error}")).ok()
    }

    fn layer(&self, context: &Arc<CudaContext>) -> Result<CudaLayer, Failure> {
        Ok(CudaBackend::on(Arc::clone(context)).layer(
            &self.spec,
            &self.weights,
            &self.options(),
        )?)
    }
}

impl Bench {
    fn ceilings(&mut self) {
        self.row("kernels", |bench| {
            let time = measure::load_kernels(&bench.context)?;
            bench.show("compiling the kernels", us(time) / 1e3, "ms", Bar::None, None);
            Ok(())
        });
        self.row("launch", |bench| {
            let time = measure::time_launch(&bench.context, 200)?;
            bench.show("a launch and waiting for it", us(time), "us", Bar::None, None);
            Ok(())
        });
        let sizes: &[u64] = if self.options.quick { &[1] } else { &[16, 64, 256, 4096] };
        for megabytes in sizes {
            self.row("read", |bench| {
                let time = measure::time_read(&bench.context, megabytes << 20, 20)?;
                let rate = (megabytes << 20) as f64 / us(time) / 1e6;
                bench.show(
                    &format!("reading {megabytes} MB, TB/s times 100"),
                    100.0 * rate,
                    "",
                    Bar::None,
                    None,
                );
                Ok(())
            });
        }
    }

    /// Opens the GPU with the kernels of `--variants`.
    #[allow(unsafe_code, reason = "kernels are taken from files")]
    fn with_kernels(&self, kernels: [String; 2]) -> aleatron_cuda::Result<Arc<CudaContext>> {
        // SAFETY: `cargo xtask ptx --variants` has compiled them from the sources of this crate.
        unsafe {
            CudaContext::open_with_kernels(self.options.device, &ContextOptions::default(), kernels)
        }
    }

    fn tiles(&mut self) {
        // Inputs, neurons, samples, and the least rate.
        let cases = if self.options.quick {
            vec![(20, 130, 70, 0.0)]
        } else {
            vec![(1024, 4096, 4096, 4500.0), (2048, 2048, 1024, 4300.0), (1000, 500, 256, 2400.0)]
        };
        let with_variants = self.options.variants.clone().map(|kernels| self.with_kernels(kernels));
        let variants = match with_variants {
            Some(Ok(context)) => Some(context),
            Some(Err(error)) => {
                println!("  variants: {error}");
                None
            }
            None => None,
        };
        let length = match Length::new(if self.options.quick { 100 } else { 1024 }) {
            Ok(length) => length,
            Err(error) => return println!("  {error}"),
        };
        for (n, m, samples, least) in cases {
            println!("  {m} neurons x {samples} samples x {} bits", n * length.bits());
            let macs = n as f64 * m as f64 * samples as f64 * length.bits() as f64;
            let show = |bench: &Self,
                        trial: &TileTrial,
                        variant: &TileVariant,
                        bar|
             -> Result<(), Failure> {
                let repeats = if bench.options.quick { 1 } else { 20 };
                let what = trial.describe(variant)?;
                if let Some(difference) = trial.check(variant)? {
                    return Err(format!("{what}: {difference}").into());
                }
                let time = trial.time(variant, repeats)?.min(trial.time(variant, repeats)?);
                bench.show(&what, macs / us(time) / 1e6, "Tbit-MAC/s", bar, None);
                Ok(())
            };
            self.row("in use", |bench| {
                let trial = TileTrial::new(&bench.context, n, m, samples, length)?;
                show(bench, &trial, &TileVariant::default(), Bar::AtLeast(least))
            });
            let Some(context) = &variants else { continue };
            let hopper = context.info().capability.0 == 9;
            let trial = match TileTrial::new(context, n, m, samples, length) {
                Ok(trial) => trial,
                Err(error) => {
                    println!("  variants: {error}");
                    continue;
                }
            };
            for shape in TileShape::in_use().into_iter().chain(TileShape::VARIANTS) {
                if shape.needs_hopper() && !hopper {
                    continue;
                }
                let variant = TileVariant { shape: Some(shape), ..TileVariant::default() };
                self.row(&shape.to_string(), |bench| show(bench, &trial, &variant, Bar::None));
            }
            // Other splits of the shape in use.
            for n_parts in [1, 2, 4, 8, 16, 33] {
                let variant = TileVariant { n_parts: Some(n_parts), ..TileVariant::default() };
                self.row("parts", |bench| show(bench, &trial, &variant, Bar::None));
            }
            for band in [2, 4, 8, 16] {
                let variant = TileVariant { band: Some(band), ..TileVariant::default() };
                self.row("bands", |bench| show(bench, &trial, &variant, Bar::None));
            }
        }
    }

    fn batch(&mut self) {
        let cases = if self.options.quick {
            vec![(20, 13, 70, 1e9)]
        } else {
            vec![
                (2048, 2048, 1024, 3500.0),
                (1000, 500, 256, 400.0),
                (1000, 500, 64, 0.0),
                (784, 128, 10_000, 0.0),
            ]
        };
        for (n, m, samples, most) in cases {
            let what = format!("{n}x{m} x {samples}");
            self.row(&what, |bench| {
                let known =
                    Known::new(n, m, samples, if bench.options.quick { 100 } else { 1024 })?;
                let bar = if most > 0.0 { Bar::AtMost(most) } else { Bar::None };
                bench.end_to_end(&what, &known, bar)
            });
        }
    }

    /// Checks a layer, and times whole calls from the host.
    fn end_to_end(&self, what: &str, known: &Known, bar: Bar) -> Result<(), Failure> {
        let layer = known.layer(&self.context)?;
        let batch = known.batch();
        for _ in 0..3 {
            // The first call is launched step by step, the second is recorded, the third is
            // repeated.
            known.check(&layer.counts(&batch, Cancel::NEVER)?)?;
        }
        let before = self.context.allocations();
        let [best, median] =
            times(|| layer.counts(&batch, Cancel::NEVER).map(drop).map_err(Into::into))?;
        let allocated = self.context.allocations() - before;
        let what = format!("{what} end to end (median {median:.1}, {allocated} allocations)");
        self.show(&what, best, "us", bar, known.vulkan(self));
        let profiler = Profiler::default();
        for _ in 0..2 {
            profiler.times()?;
            layer.counts_with(&batch, Cancel::NEVER, Some(&profiler))?;
        }
        print!("{}", indented(&profiler.table()?));
        Ok(())
    }

    /// Measures signed dense layers and convolutions.
    fn kinds(&mut self) {
        let quick = self.options.quick;
        let (n, m, samples, bits) = if quick { (20, 13, 9, 100) } else { (1000, 500, 256, 1024) };
        let [channels, size, images, conv_bits] =
            if quick { [2, 5, 2, 100] } else { [64, 32, 256, 256] };
        let conv =
            Convolution::conv2d([channels, size, size], channels, [3, 3]).with_padding([1, 1]);
        let encoding = Encoding::Bernoulli { seed: 0x5eed };
        for n_samples in [1, samples] {
            let what = format!("{n}x{m} x {n_samples}, signed");
            self.row(&what, |bench| {
                let spec = LayerSpec::dense(n, m, Length::new(bits)?, Polarity::Signed, encoding)?;
                bench.end_to_end(&what, &Known::of(spec, n_samples)?, Bar::None)
            });
        }
        for polarity in Polarity::ALL {
            let what = format!(
                "{channels} kernels of 3x3 on {channels}x{size}x{size} x {images}, {polarity}"
            );
            self.row(&what, |bench| {
                let spec = LayerSpec::conv(conv, Length::new(conv_bits)?, polarity, encoding)?;
                bench.end_to_end(&what, &Known::of(spec, images)?, Bar::None)
            });
        }
        let what = format!(
            "{channels} kernels of 3x3 on {channels}x{size}x{size} x {images}, signed, inputs not negative"
        );
        self.row(&what, |bench| {
            let spec = LayerSpec::conv(conv, Length::new(conv_bits)?, Polarity::Signed, encoding)?;
            bench.non_negative(&what, Known::of(spec, images)?)
        });
    }

    /// Times the kernels of a signed layer whose inputs a program knows not to be negative.
    fn non_negative(&self, what: &str, mut known: Known) -> Result<(), Failure> {
        known.values.iter_mut().for_each(|value| *value = value.abs());
        let mut program = ProgramBuilder::default();
        let input = program.input(known.spec.n_inputs())?;
        let layer = program.layer(known.spec.clone(), known.weights.clone(), 1)?;
        program.set_non_negative(layer)?;
        let thresholds = program.quantize(layer, input, 1.0, None, ValueRange::Saturate)?;
        let counts = program.product(layer, thresholds)?;
        let program = Arc::new(program.finish(vec![counts])?);
        let backend = CudaBackend::on(Arc::clone(&self.context));
        let prepared = backend.prepare_program(&program, &known.options())?;
        let prepared = prepared.ok_or("the program has no kernels")?;
        let inputs = [&known.values[..]];
        let batch =
            ProgramBatch { inputs: &inputs, n_samples: known.n_samples, seed: SEED, group: 1 };
        let output = prepared.run(&batch, program.outputs(), Cancel::NEVER)?;
        match &output.slots[..] {
            [SlotData::Words(counts)] => known.check(counts)?,
            _ => return Err("counts are words".into()),
        }
        prepared.profile(&batch, program.outputs(), Cancel::NEVER)?;
        let times = prepared.profile(&batch, program.outputs(), Cancel::NEVER)?;
        let tiles = times.iter().filter(|kernel| kernel.name.starts_with("tile_"));
        let time: Duration = tiles.map(|kernel| kernel.time).sum();
        let products = known.spec.n_neurons() as f64 * known.spec.max_fan_in() as f64;
        let macs = products * (known.n_samples * known.spec.length().bits()) as f64;
        let rate = macs / time.as_secs_f64() / 1e12;
        self.show(&format!("{what}, counting"), rate, "Tbit-MAC/s", Bar::AtLeast(620.0), None);
        Ok(())
    }

    fn single(&mut self) {
        let cases = if self.options.quick {
            vec![(20, 13, 1e9, 1e9)]
        } else {
            vec![
                (512, 256, 25.0, 12.0),
                (1000, 500, 40.0, 30.0),
                (64, 32, 0.0, 0.0),
                (4096, 4096, 0.0, 0.0),
            ]
        };
        for (n, m, host, card) in cases {
            self.row(&format!("{n}x{m} x 1"), |bench| {
                let known = Known::new(n, m, 1, if bench.options.quick { 100 } else { 1024 })?;
                let layer = known.layer(&bench.context)?;
                let batch = known.batch();
                known.check(&layer.counts(&batch, Cancel::NEVER)?)?;
                let bar = |most: f64| if most > 0.0 { Bar::AtMost(most) } else { Bar::None };
                let [best, median] =
                    times(|| layer.counts(&batch, Cancel::NEVER).map(drop).map_err(Into::into))?;
                let vulkan = known.vulkan(bench);
                bench.show(
                    &format!("{n}x{m} from the host (median {median:.1})"),
                    best,
                    "us",
                    bar(host),
                    vulkan,
                );
                let inputs = CudaArray::with(&bench.context, &known.values)?;
                let mut outputs = CudaArray::zeros(&bench.context, m, DeviceElement::U64)?;
                let run = |outputs: &mut CudaArray| -> Result<(), Failure> {
                    let (inputs, outputs, order) =
                        (inputs.array(), outputs.array_mut(), InputOrder::Ready);
                    let mut on_card = DeviceBatch { inputs, outputs, seed: SEED, order };
                    Ok(layer.counts_on_device(&mut on_card, Cancel::NEVER)?)
                };
                run(&mut outputs)?;
                known.check(&outputs.read()?)?;
                let [best, median] = times(|| run(&mut outputs))?;
                bench.show(
                    &format!("{n}x{m} from the card (median {median:.1})"),
                    best,
                    "us",
                    bar(card),
                    None,
                );
                let profiler = Profiler::default();
                for _ in 0..2 {
                    profiler.times()?;
                    layer.counts_with(&batch, Cancel::NEVER, Some(&profiler))?;
                }
                print!("{}", indented(&profiler.table()?));
                Ok(())
            });
        }
    }

    fn encode(&mut self) {
        let (n, samples, bits) = if self.options.quick { (20, 9, 100) } else { (1000, 256, 1024) };
        let run =
            |bench: &Self, context: &Arc<CudaContext>, words: u64, bar| -> Result<(), Failure> {
                let trial = TileTrial::new(context, n, 1, samples, Length::new(bits)?)?;
                let time = trial.time_encode(words, 20)?.min(trial.time_encode(words, 20)?);
                let what =
                    format!("{samples} x {n} x {bits} bits from values, {words} words a thread");
                bench.show(&what, us(time), "us", bar, None);
                Ok(())
            };
        self.row("encode", |bench| run(bench, &bench.context, 8, Bar::AtMost(80.0)));
        let Some(kernels) = self.options.variants.clone() else { return };
        match self.with_kernels(kernels) {
            Ok(context) => {
                for words in [4, 8, 16] {
                    self.row("encode", |bench| run(bench, &context, words, Bar::None));
                }
            }
            Err(error) => println!("  variants: {error}"),
        }
    }

    /// Measures one sample of a layer whose weights are far larger than any cache.
    fn large(&mut self) {
        let (n, m, bits) = if self.options.quick { (20, 40, 100) } else { (4096, 4096, 1024) };
        let context = match self.options.variants.clone() {
            Some(kernels) => {
                self.with_kernels(kernels).unwrap_or_else(|_| Arc::clone(&self.context))
            }
            None => Arc::clone(&self.context),
        };
        let all = self.options.variants.is_some();
        self.row("large", |bench| {
            if let (Some(_), false) = (&bench.vulkan, bench.options.quick) {
                let context = GpuContext::get(&AdapterChoice::from_env())?;
                println!("  Vulkan reads 2 GiB: {:?}", Bandwidth::measure(&context, 2 << 30)?);
            }
            let trial = FewTrial::new(&context, n, m, 1, Length::new(bits)?)?;
            let bytes = trial.weight_bytes();
            let read = measure::time_read(&context, bytes, 20)?;
            let read_rate = bytes as f64 / us(read) / 1e6;
            bench.show(
                &format!("reading {} MB, TB/s times 100", bytes >> 20),
                100.0 * read_rate,
                "",
                Bar::None,
                None,
            );
            for variant in few_variants(all) {
                let what = trial.describe(&variant)?;
                if let Some(difference) = trial.check(&variant)? {
                    return Err(format!("{what}: {difference}").into());
                }
                let time = trial.time(&variant, 20)?;
                let rate = bytes as f64 / us(time) / 1e6;
                let what = format!("{what}: {rate:.3} TB/s, of reading");
                let bar =
                    if variant == FewVariant::default() { Bar::AtLeast(92.0) } else { Bar::None };
                bench.show(&what, 100.0 * rate / read_rate, "%", bar, None);
            }
            Ok(())
        });
        for (n, m) in [(512, 256), (1000, 500)] {
            if self.options.quick {
                continue;
            }
            self.row("kernel alone", |bench| {
                let trial = FewTrial::new(&context, n, m, 1, Length::new(bits)?)?;
                for variant in few_variants(all) {
                    let what = trial.describe(&variant)?;
                    if let Some(difference) = trial.check(&variant)? {
                        return Err(format!("{what}: {difference}").into());
                    }
                    let time = trial.time(&variant, 200)?;
                    bench.show(
                        &format!("{n}x{m}, kernel alone, {what}"),
                        us(time),
                        "us",
                        Bar::None,
                        None,
                    );
                }
                Ok(())
            });
        }
    }
}

/// Returns the kernel in use, and the variants to compare.
fn few_variants(all: bool) -> Vec<FewVariant> {
    let mut variants = vec![FewVariant::default()];
    if all {
        for (vectors, ahead, slice) in [
            (1, 4, 512),
            (1, 8, 512),
            (2, 2, 1024),
            (2, 4, 1024),
            (2, 8, 1024),
            (4, 2, 2048),
            (4, 3, 2048),
            (4, 4, 2048),
        ] {
            for blocks in [2, 4] {
                let (rows, blocks, slice_bytes) =
                    (Some((vectors, ahead)), Some(blocks), Some(slice));
                variants.push(FewVariant { rows, blocks, slice_bytes });
            }
        }
        variants.push(FewVariant { rows: Some((0, 2)), ..FewVariant::default() });
    }
    variants
}

fn indented(table: &str) -> String {
    table.lines().map(|line| format!("      {line}\n")).collect()
}
