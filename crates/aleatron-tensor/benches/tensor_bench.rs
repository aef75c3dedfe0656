//! Benchmarks of elementwise operations, reductions, normalisation and small operations on
//! device-resident tensors.
//!
//! ```text
//! cargo bench -p aleatron-tensor --bench tensor_bench -- [--case NAME]... [--device cpu|gpu] [--quick]
//! ```
//! Cases: `sum`, `relu`, `fused`, `rows`, `small`, `first`, `layout`, and `memory` for the CPU.
//! `ALEATRON_GPU` or `SC_GPU_ADAPTER` names the adapter; the figures of a software adapter are
//! no performance. `--quick` shrinks sizes. Results are checked before they are measured. Products,
//! convolutions and attention are in `tensor_kernels`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark stops at the first error"
)]

use std::time::Instant;

use aleatron_tensor::{DType, Device, Order, Result, Tensor};

struct Options {
    cases: Vec<String>,
    device: String,
    quick: bool,
}

impl Options {
    fn has(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|wanted| wanted == case)
    }

    fn size(&self, size: usize) -> usize {
        if self.quick { size / 64 } else { size }
    }
}

fn options() -> std::result::Result<Options, String> {
    let mut options = Options { cases: Vec::new(), device: "gpu".to_owned(), quick: false };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--case" => options.cases.push(args.next().ok_or("--case needs a name")?),
            "--device" => options.device = args.next().ok_or("--device needs a name")?,
            "--quick" => options.quick = true,
            // The argument that `cargo bench` adds.
            "--bench" => {}
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(options)
}

/// Returns the shortest time of an operation, in a batch of several.
fn time(device: &Device, mut operation: impl FnMut() -> Result<Tensor>) -> f64 {
    let mut best = f64::MAX;
    let mut repeats = 1;
    for _ in 0..9 {
        let start = Instant::now();
        for _ in 0..repeats {
            let tensor = operation().unwrap();
            // Results that are never read are not computed; copying an empty range forces them.
            record(&tensor);
        }
        device.finish().unwrap();
        let seconds = start.elapsed().as_secs_f64() / f64::from(repeats);
        best = best.min(seconds);
        repeats = (0.03 / seconds).clamp(1.0, 500.0) as u32;
    }
    best
}

/// Records the pending computation of a tensor.
fn record(tensor: &Tensor) {
    tensor.record().unwrap();
}

fn row(name: &str, seconds: f64, bytes: f64) {
    println!("{name:<44} {:>11.1} us {:>9.3} TB/s", seconds * 1e6, bytes / seconds / 1e12);
}

/// Computes values between 0 and 1 on the device.
fn values(n: usize, device: &Device) -> Tensor {
    let row = Tensor::rand_seeded(&[4096.min(n)], 1, DType::F32, device).unwrap();
    let rows = n.div_ceil(4096);
    row.broadcast_to(&[rows, 4096.min(n)])
        .unwrap()
        .contiguous()
        .unwrap()
        .reshape(&[rows * 4096.min(n)])
        .unwrap()
}

/// Returns the shortest of several times of each function, taken in turns: another program may slow
/// all of them down for a while.
fn in_turns<const N: usize>(mut functions: [&mut dyn FnMut(); N]) -> [f64; N] {
    let mut best = [f64::MAX; N];
    for _ in 0..15 {
        for (best, function) in best.iter_mut().zip(&mut functions) {
            let start = Instant::now();
            function();
            *best = best.min(start.elapsed().as_secs_f64());
        }
    }
    best
}

/// Compares sums and elementwise operations of the CPU with reading and copying the same memory
/// with as many threads.
fn memory(n: usize) {
    use aleatron_cpu::{Cpu, Tier, threads};
    let pool = threads::current().unwrap();
    let cpu = Cpu::new(Tier::current().unwrap(), pool.clone());
    let device = Device::Cpu;
    let x = values(n, &device);
    // In memory as tensors have it: on huge pages.
    let buffer =
        || aleatron_cpu::WordBuffer::zeroed(n / 2, aleatron_core::Quantity::Words).unwrap();
    let (mut words, mut to) = (buffer(), buffer());
    words.fill(1);
    let bytes = 4.0 * n as f64;
    let share = (n / 2).div_ceil(pool.threads());
    let [read, copy, sum, max, argmax, relu] = in_turns([
        &mut || {
            std::hint::black_box(cpu.ceiling_read(&words));
        },
        &mut || {
            let pieces = words.chunks(share).zip(to.chunks_mut(share));
            let pieces: Vec<_> = pieces.collect();
            pool.for_each(pieces.into_iter(), std::time::Duration::from_secs(1), |(from, to)| {
                to.copy_from_slice(from);
            });
        },
        &mut || record(&x.sum_all().unwrap()),
        &mut || record(&x.max_all().unwrap()),
        &mut || record(&x.argmax_all().unwrap()),
        &mut || record(&x.relu().unwrap()),
    ]);
    row(&format!("reading of {n}"), read, bytes);
    row(&format!("copying of {n}"), copy, 2.0 * bytes);
    for (name, seconds, ceiling) in
        [("sum", sum, read), ("max", max, read), ("argmax", argmax, read), ("relu", relu, copy)]
    {
        row(&format!("{name} of {n}"), seconds, if name == "relu" { 2.0 * bytes } else { bytes });
        println!("ratio {:.3}", ceiling / seconds);
    }
}

fn main() {
    let options = match options() {
        Ok(options) => options,
        Err(message) => {
            eprintln!("{message}");
            std::process::exit(2);
        }
    };
    let device = Device::named(&options.device).unwrap();
    println!("{device}");
    let mi = |n: usize| options.size(n << 20);
    if options.has("sum") {
        for n in [mi(1), mi(16), mi(64)] {
            let x = values(n, &device);
            let ones = Tensor::ones(&[n], DType::F32, &device).unwrap().contiguous().unwrap();
            record(&ones);
            assert_eq!(ones.sum_all().unwrap().item::<f32>().unwrap(), n as f32);
            row(&format!("sum of {n}"), time(&device, || x.sum_all()), 4.0 * n as f64);
            row(&format!("max of {n}"), time(&device, || x.max_all()), 4.0 * n as f64);
            row(&format!("argmax of {n}"), time(&device, || x.argmax_all()), 4.0 * n as f64);
            let square = x.reshape(&[n / 1024, 1024]).unwrap();
            row(
                &format!("sum of rows of 1024, {n}"),
                time(&device, || square.sum(1)),
                4.0 * n as f64,
            );
            row(&format!("sum of columns, {n}"), time(&device, || square.sum(0)), 4.0 * n as f64);
            // One awaited result, compared with an empty submission.
            let one = values(4096, &device);
            let wait = |x: &Tensor| {
                let mut best = f64::MAX;
                for _ in 0..200 {
                    let start = Instant::now();
                    x.sum_all().unwrap().item::<f32>().unwrap();
                    best = best.min(start.elapsed().as_secs_f64());
                }
                best
            };
            println!(
                "sum and read: {:.1} us for {n}, {:.1} us for 4096",
                wait(&x) * 1e6,
                wait(&one) * 1e6
            );
        }
    }
    if options.has("memory") && !device.is_gpu() {
        memory(mi(16));
    }
    if options.has("relu") {
        for n in [mi(1), mi(16), mi(64)] {
            let x = values(n, &device);
            row(&format!("relu of {n}"), time(&device, || x.relu()), 8.0 * n as f64);
            row(
                &format!("add of {n}"),
                time(&device, || x.add(&x.flip(0)?.flip(0)?)),
                8.0 * n as f64,
            );
            let h = x.cast(DType::F16).unwrap();
            record(&h);
            row(&format!("relu of {n}, 16 bits"), time(&device, || h.relu()), 4.0 * n as f64);
        }
    }
    if options.has("fused") {
        let n = mi(64);
        let x = values(n, &device);
        let one = time(&device, || x.mul(1.5));
        let ten = time(&device, || {
            x.mul(1.5)?
                .add(0.5)?
                .relu()?
                .sub(0.25)?
                .mul(2.0)?
                .neg()?
                .abs()?
                .add(1.0)?
                .maximum(0.1)?
                .minimum(3.0)
        });
        row("one elementwise operation", one, 8.0 * n as f64);
        row("ten fused elementwise operations", ten, 8.0 * n as f64);
        println!("ratio {:.3}", ten / one);
        row("exp, tanh, gelu fused", time(&device, || x.exp()?.tanh()?.gelu()), 8.0 * n as f64);
    }
    if options.has("rows") {
        let n = mi(64);
        let x = values(n, &device).reshape(&[n / 1024, 1024]).unwrap();
        let scale = Tensor::ones(&[1024], DType::F32, &device).unwrap();
        let bytes = 8.0 * n as f64;
        row("softmax of rows of 1024", time(&device, || x.softmax(&[1])), bytes);
        row("log_softmax of rows of 1024", time(&device, || x.log_softmax(&[1])), bytes);
        row(
            "layer_norm of rows of 1024",
            time(&device, || x.layer_norm(&[1], Some(&scale), Some(&scale), 1e-5)),
            bytes,
        );
        row(
            "rms_norm of rows of 1024",
            time(&device, || x.rms_norm(&[1], Some(&scale), 1e-5)),
            bytes,
        );
        row("cumsum of rows of 1024", time(&device, || x.cumsum(1)), bytes);
        let few = x.slice(0, ..(n / 1024).min(1024)).unwrap();
        row(
            "sort of 1024 rows of 1024",
            time(&device, || few.sort(1, Order::Ascending)),
            8.0 * few.len() as f64,
        );
    }
    if options.has("layout") {
        let n = mi(16);
        let x = values(n, &device).reshape(&[n / 4096, 4096]).unwrap();
        row("transpose", time(&device, || x.t()?.contiguous()), 8.0 * n as f64);
        row("concat of two", time(&device, || Tensor::concat(&[&x, &x], 0)), 16.0 * n as f64);
        let indices = Tensor::arange(0, (n / 4096) as i64, 1, DType::I32, &device).unwrap();
        row("index_select of rows", time(&device, || x.index_select(0, &indices)), 8.0 * n as f64);
    }
    if options.has("small") {
        let x = values(1024, &device);
        // Sums do not fuse: each is a launch.
        let sum = time(&device, || x.reshape(&[32, 32])?.sum(1));
        println!("one more small operation: {:.2} us", sum * 1e6);
        let relu = time(&device, || x.relu());
        println!("one more small elementwise operation: {:.2} us", relu * 1e6);
    }
    if options.has("first")
        && let Device::Gpu(gpu) = &device
    {
        let x = values(1 << 16, &device);
        let square = x.reshape(&[256, 256]).unwrap();
        let first = |what: &str, run: &dyn Fn() -> aleatron_tensor::Result<Tensor>| {
            let (before, start) = (gpu.context().created().pipelines, Instant::now());
            run().unwrap().to_vec::<f32>().unwrap();
            let (time, made) =
                (start.elapsed().as_secs_f64() * 1e3, gpu.context().created().pipelines - before);
            println!("first {what}: {time:.1} ms, {made} pipelines made");
        };
        first("relu", &|| x.relu());
        first("softplus and erf", &|| x.softplus()?.erf());
        first("sum", &|| x.sum_all());
        first("softmax", &|| square.softmax(&[1]));
        first("layer_norm", &|| square.layer_norm(&[1], None, None, 1e-5));
        first("matmul", &|| square.matmul(&square));
        first("transpose", &|| square.t()?.contiguous());
        let chain = || x.softplus()?.erf()?.sum_all()?.item::<f32>();
        chain().unwrap();
        let created = gpu.context().created();
        chain().unwrap();
        let again = gpu.context().created();
        println!(
            "second use: {} pipelines, {} buffers made",
            again.pipelines - created.pipelines,
            again.buffers - created.buffers
        );
    }
}
