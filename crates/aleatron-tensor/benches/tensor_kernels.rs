//! Benchmarks of products, convolutions and attention on device-resident tensors, with every plan
//! compared with the automatic one.
//!
//! ```text
//! cargo bench -p aleatron-tensor --bench tensor_kernels -- [--case NAME]... [--sweep] [--quick]
//! ```
//! Cases: `matmul`, `batched`, `half`, `gemv`, `conv`, `attention`, `cpu`. `ALEATRON_GPU` or
//! `SC_GPU_ADAPTER` names the adapter; the figures of a software adapter do not show performance.
//! `--sweep` compares plans, `--quick` shrinks sizes. Each row is checked at some elements against
//! 64-bit sums before it is measured. `benchmarks/torch_tensor.py` prints the same rows for torch.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark stops at the first error"
)]

use std::time::Instant;

use aleatron_core::philox::philox4x32;
use aleatron_tensor::{
    AttentionOptions, ConvOptions, CooperativeTile, DType, Device, MatmulPlan, Result, Tensor, Tile,
};
use half::f16;

struct Options {
    cases: Vec<String>,
    sweep: bool,
    quick: bool,
}

impl Options {
    fn has(&self, case: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|wanted| wanted == case)
    }

    fn size(&self, size: usize) -> usize {
        if self.quick { size / 16 } else { size }
    }
}

fn options() -> std::result::Result<Options, String> {
    let mut options = Options { cases: Vec::new(), sweep: false, quick: false };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--case" => options.cases.push(args.next().ok_or("--case needs a name")?),
            "--sweep" => options.sweep = true,
            "--quick" => options.quick = true,
            // The argument that `cargo bench` adds.
            "--bench" => {}
            other => return Err(format!("unknown argument {other}")),
        }
    }
    Ok(options)
}

/// Returns the elements of a matrix that preserves the magnitude of its factors, on average.
fn weights(n: usize, seed: u32, depth: usize) -> Vec<f32> {
    let scale = (3.0 / depth as f32).sqrt();
    random(n, seed).into_iter().map(|x| x * scale).collect()
}

/// Values between -1 and 1.
fn random(n: usize, seed: u32) -> Vec<f32> {
    let words = (0..n.div_ceil(4) as u32).flat_map(|i| philox4x32([i, 0, 0, 0], [seed, 5]));
    words.take(n).map(|word| (word >> 8) as f32 / 8_388_608.0 - 1.0).collect()
}

/// Returns the shortest time of an operation that takes its own result, of batches of several.
///
/// Each call needs the result of the one before. Calls that do not would overlap on the device, and
/// a product of few workgroups would seem several times as fast as it is for a caller that waits for it.
///
/// Clocks fall while the host prepares or checks operands, so a quarter of a second of calls goes
/// before.
fn time(device: &Device, first: &Tensor, operation: impl Fn(&Tensor) -> Result<Tensor>) -> f64 {
    let mut best = f64::MAX;
    let mut repeats = 1;
    let begin = Instant::now();
    let mut rounds = 0;
    while rounds < 7 || begin.elapsed().as_secs_f64() < 0.45 {
        rounds += 1;
        let start = Instant::now();
        let mut value = first.clone();
        for _ in 0..repeats {
            value = operation(&value).unwrap();
        }
        device.finish().unwrap();
        let seconds = start.elapsed().as_secs_f64() / f64::from(repeats);
        best = best.min(seconds);
        // About 30 ms at a time, for the next round.
        repeats = (0.03 / seconds).clamp(1.0, 1000.0) as u32;
    }
    best
}

/// Keeps the device busy until its clocks have risen.
fn warm_up(device: &Device) {
    let x = Tensor::from_slice(&random(1 << 20, 99), &[1024, 1024], device).unwrap();
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < 1.5 {
        for _ in 0..50 {
            drop(x.matmul(&x).unwrap());
        }
        device.finish().unwrap();
    }
}

fn row(name: &str, plan: &str, seconds: f64, flops: f64, wrong: usize) {
    println!(
        "{name:<28} {plan:<46} {:>10.1} us {:>9.3} TFLOP/s{}",
        seconds * 1e6,
        flops / seconds / 1e12,
        if wrong > 0 { format!("  WRONG in {wrong} elements") } else { String::new() }
    );
}

fn name_of(plan: MatmulPlan) -> String {
    let of = |tile: Tile| {
        let Tile { rows, columns, depth, thread_rows, thread_columns } = tile;
        format!("{rows}x{columns}x{depth} by {thread_rows}x{thread_columns}")
    };
    match plan {
        MatmulPlan::Automatic => "automatic".to_owned(),
        MatmulPlan::Sequential(tile) => format!("{} sequential", of(tile)),
        MatmulPlan::SplitK(tile) => format!("{} split-k", of(tile)),
        MatmulPlan::Cooperative(tile) => {
            let CooperativeTile {
                rows,
                columns,
                depth,
                subgroup_rows,
                subgroup_columns,
                buffers,
                shared,
            } = tile;
            format!(
                "{rows}x{columns}x{depth} by {subgroup_rows}x{subgroup_columns}, {buffers} buffers of {shared:?}"
            )
        }
    }
}

/// Returns the number of elements of a product outside their rounding bounds.
fn wrong(got: &[f32], a: &[f32], b: &[f32], [m, k, n]: [usize; 3], half: bool) -> usize {
    let mut wrong = 0;
    for i in 0..64usize {
        let (r, c) = (i * 7919 % m, (i * 104_729 + i * i) % n);
        let (mut sum, mut absolute) = (0.0f64, 0.0f64);
        for l in 0..k {
            let product = f64::from(a[r * k + l]) * f64::from(b[l * n + c]);
            sum += product;
            absolute += product.abs();
        }
        let bound =
            (k as f64 + 8.0) * 6e-8 * absolute + if half { sum.abs() / 2048.0 + 1e-7 } else { 0.0 };
        wrong += usize::from((f64::from(got[r * n + c]) - sum).abs() > bound);
    }
    wrong
}

fn matmul(options: &Options, device: &Device) {
    let mut plans = vec![MatmulPlan::Automatic];
    if options.sweep {
        for tile in [
            Tile::LARGE,
            Tile::WIDE,
            Tile::MEDIUM,
            Tile::new(128, 128, 8, 8, 8),
            Tile::new(64, 128, 16, 8, 8),
            Tile::new(128, 64, 16, 8, 4),
            Tile::new(64, 64, 16, 4, 4),
            Tile::new(64, 64, 8, 8, 4),
            Tile::new(32, 64, 16, 4, 4),
            Tile::new(32, 128, 16, 8, 4),
        ] {
            plans.extend([MatmulPlan::Sequential(tile), MatmulPlan::SplitK(tile)]);
        }
    }
    for n in [1024, 2048, 4096].map(|n| options.size(n)) {
        let (a, b) = (random(n * n, 1), weights(n * n, 2, n));
        let left = Tensor::from_slice(&a, &[n, n], device).unwrap();
        let right = Tensor::from_slice(&b, &[n, n], device).unwrap();
        let flops = 2.0 * (n as f64).powi(3);
        for &plan in &plans {
            if n > 2048 && matches!(plan, MatmulPlan::SplitK(_)) {
                continue;
            }
            let got = left.matmul_as(&right, plan).unwrap().to_vec::<f32>().unwrap();
            let seconds = time(device, &left, |x| x.matmul_as(&right, plan));
            row(
                &format!("f32 matmul {n}"),
                &name_of(plan),
                seconds,
                flops,
                wrong(&got, &a, &b, [n; 3], false),
            );
        }
        let columns = right.t().unwrap();
        let seconds = time(device, &left, |x| x.matmul(&columns));
        row(&format!("f32 matmul {n}"), "right transposed", seconds, flops, 0);
        let seconds = time(device, &left, |x| x.t()?.matmul(&right));
        row(&format!("f32 matmul {n}"), "left transposed", seconds, flops, 0);
    }
}

fn batched(options: &Options, device: &Device) {
    let (count, n) = (64, options.size(512));
    let left = Tensor::from_slice(&random(count * n * n, 3), &[count, n, n], device).unwrap();
    let right = Tensor::from_slice(&weights(count * n * n, 4, n), &[count, n, n], device).unwrap();
    let mut plans = vec![MatmulPlan::Automatic];
    if options.sweep {
        let tiles = [Tile::LARGE, Tile::WIDE, Tile::MEDIUM, Tile::new(64, 128, 16, 8, 8)];
        plans.extend(tiles.map(MatmulPlan::Sequential));
    }
    for plan in plans {
        let seconds = time(device, &left, |x| x.matmul_as(&right, plan));
        let flops = 2.0 * count as f64 * (n as f64).powi(3);
        row(&format!("f32 batched {count} x {n}"), &name_of(plan), seconds, flops, 0);
    }
}

fn half(options: &Options, device: &Device) {
    for n in [1024, 2048, 4096].map(|n| options.size(n)) {
        let round = |x: Vec<f32>| -> Vec<f32> {
            x.into_iter().map(|x| f16::from_f32(x).to_f32()).collect()
        };
        let (a, b) = (round(random(n * n, 5)), round(weights(n * n, 6, n)));
        let of =
            |x: &[f32]| Tensor::from_slice(x, &[n, n], device).unwrap().cast(DType::F16).unwrap();
        let (left, right) = (of(&a), of(&b));
        for tensor in [&left, &right] {
            tensor.to_vec::<f16>().unwrap();
        }
        let mut plans = vec![MatmulPlan::Automatic];
        if options.sweep {
            plans.extend(CooperativeTile::ALL.map(MatmulPlan::Cooperative));
            plans.push(MatmulPlan::Sequential(Tile::LARGE));
        }
        let flops = 2.0 * (n as f64).powi(3);
        for plan in plans {
            let got = match left.matmul_as(&right, plan) {
                Ok(got) => got.to_vec::<f16>().unwrap(),
                Err(error) => {
                    println!("f16 matmul {n}: {}: {error}", name_of(plan));
                    continue;
                }
            };
            let got: Vec<f32> = got.into_iter().map(f16::to_f32).collect();
            let seconds = time(device, &left, |x| x.matmul_as(&right, plan));
            row(
                &format!("f16 matmul {n}"),
                &name_of(plan),
                seconds,
                flops,
                wrong(&got, &a, &b, [n; 3], true),
            );
        }
        let columns = right.t().unwrap();
        let seconds = time(device, &left, |x| x.matmul(&columns));
        row(&format!("f16 matmul {n}"), "right transposed", seconds, flops, 0);
    }
}

fn gemv(options: &Options, device: &Device) {
    let n = options.size(4096);
    let weights = Tensor::from_slice(&weights(n * n, 7, n), &[n, n], device).unwrap();
    for m in [1, 2, 8, 16, 64] {
        let x = Tensor::from_slice(&random(m * n, 8), &[m, n], device).unwrap();
        for (name, weights) in [("rows", weights.clone()), ("columns", weights.t().unwrap())] {
            let seconds = time(device, &x, |x| x.matmul(&weights));
            let bytes = 4.0 * (n * n) as f64;
            row(&format!("f32 {m} x {n} x {n}"), name, seconds, 2.0 * (m * n * n) as f64, 0);
            println!("{:<28} {:<46} {:>10.1} GB/s of weights", "", "", bytes / seconds / 1e9);
        }
    }
}

fn conv(options: &Options, device: &Device) {
    for (images, channels, size, kernel, out) in
        [(32, 64, 56, 3, 64), (32, 256, 14, 1, 256), (32, 256, 14, 3, 256), (1, 512, 7, 3, 512)]
    {
        let images = if options.quick { 1 } else { images };
        let x = random(images * channels * size * size, 9);
        let image = Tensor::from_slice(&x, &[images, channels, size, size], device).unwrap();
        let depth = channels * kernel * kernel;
        let w = weights(out * depth, 10, depth);
        let weight = Tensor::from_slice(&w, &[out, channels, kernel, kernel], device).unwrap();
        let bias = Tensor::from_slice(&weights(out, 11, 300), &[out], device).unwrap();
        let padding = kernel / 2;
        let shape = ConvOptions { padding: [[padding; 2]; 2], ..ConvOptions::default() };
        let mut plans = vec![MatmulPlan::Automatic];
        if options.sweep {
            let tiles = [
                Tile::LARGE,
                Tile::WIDE,
                Tile::MEDIUM,
                Tile::new(64, 128, 16, 8, 8),
                Tile::new(64, 256, 8, 8, 8),
                Tile::new(64, 64, 16, 4, 4),
            ];
            plans.extend(tiles.map(MatmulPlan::Sequential));
            if images == 1 {
                plans.extend(tiles.map(MatmulPlan::SplitK));
            }
        }
        let flops = 2.0 * (images * out * size * size * channels * kernel * kernel) as f64;
        for plan in plans {
            let seconds = time(device, &image, |x| x.conv2d_as(&weight, Some(&bias), &shape, plan));
            let name =
                format!("f32 conv {channels}>{out} {kernel}x{kernel} {size}x{size} b{images}");
            row(&name, &name_of(plan), seconds, flops, 0);
        }
    }
}

fn attention(options: &Options, device: &Device) {
    let (heads, length) = (32, 128);
    for n in [512, 2048].map(|n| options.size(n)) {
        let of = |seed| {
            Tensor::from_slice(&random(heads * n * length, seed), &[heads, n, length], device)
                .unwrap()
        };
        let (q, k, v) = (of(12), of(13), of(14));
        let seconds = time(device, &q, |q| q.attention(&k, &v, &AttentionOptions::default()));
        let flops = 4.0 * (heads * n * n * length) as f64;
        row(&format!("f32 attention {heads} x {n} x {length}"), "automatic", seconds, flops, 0);
    }
}

fn cpu(options: &Options) {
    for n in [512, 1024].map(|n| options.size(n)) {
        let (a, b) = (random(n * n, 15), weights(n * n, 16, n));
        let left = Tensor::from_slice(&a, &[n, n], &Device::Cpu).unwrap();
        let right = Tensor::from_slice(&b, &[n, n], &Device::Cpu).unwrap();
        let flops = 2.0 * (n as f64).powi(3);
        row(
            &format!("cpu matmul {n}"),
            "all threads",
            time(&Device::Cpu, &left, |x| x.matmul(&right)),
            flops,
            0,
        );
        let mut out = vec![0.0f32; n * n];
        let mut best = f64::MAX;
        for _ in 0..7 {
            let start = Instant::now();
            let step = n as isize;
            // SAFETY: the slices have n rows of n elements.
            unsafe {
                let (a, b) = (a.as_ptr(), b.as_ptr());
                matrixmultiply::sgemm(
                    n,
                    n,
                    n,
                    1.0,
                    a,
                    step,
                    1,
                    b,
                    step,
                    1,
                    0.0,
                    out.as_mut_ptr(),
                    step,
                    1,
                );
            }
            best = best.min(start.elapsed().as_secs_f64());
        }
        row(&format!("cpu matmul {n}"), "the crate alone, one thread", best, flops, 0);
        // In turns, half of the rows on each thread: another program may slow both down for a
        // while.
        let threads = aleatron_cpu::threads::get_num_threads().unwrap();
        let rows = n.div_ceil(threads);
        let (mut crate_best, mut own_best) = (f64::MAX, f64::MAX);
        for _ in 0..40 {
            let start = Instant::now();
            std::thread::scope(|scope| {
                for (a, out) in a.chunks(rows * n).zip(out.chunks_mut(rows * n)) {
                    let (b, step) = (&b, n as isize);
                    scope.spawn(move || {
                        let (m, a, b) = (a.len() / n, a.as_ptr(), b.as_ptr());
                        // SAFETY: the slices have m and n rows of n elements.
                        unsafe {
                            let out = out.as_mut_ptr();
                            matrixmultiply::sgemm(
                                m, n, n, 1.0, a, step, 1, b, step, 1, 0.0, out, step, 1,
                            );
                        }
                    });
                }
            });
            crate_best = crate_best.min(start.elapsed().as_secs_f64());
            let start = Instant::now();
            drop(left.matmul(&right).unwrap());
            own_best = own_best.min(start.elapsed().as_secs_f64());
        }
        row(&format!("cpu matmul {n}"), "the crate alone, all threads", crate_best, flops, 0);
        row(&format!("cpu matmul {n}"), "all threads, in turns with it", own_best, flops, 0);
        println!("ratio {:.3}", crate_best / own_best);
    }
}

fn main() {
    let options = options().unwrap();
    if options.has("cpu") {
        cpu(&options);
    }
    let device = Device::gpu().unwrap();
    println!("{device}");
    if !options.quick {
        warm_up(&device);
    }
    for (name, case) in [
        ("matmul", matmul as fn(&Options, &Device)),
        ("batched", batched),
        ("half", half),
        ("gemv", gemv),
        ("conv", conv),
        ("attention", attention),
    ] {
        if options.has(name) {
            case(&options, &device);
        }
    }
}
