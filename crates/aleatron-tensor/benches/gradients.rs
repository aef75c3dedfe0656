//! Measures training steps: the forward pass, the backward pass and an update of the parameters.
//!
//! `cargo bench -p aleatron-tensor --bench gradients -- [--device gpu] [--threads N]`
#![allow(clippy::unwrap_used, clippy::panic, reason = "a benchmark fails by panicking")]

use std::time::Instant;

use aleatron_tensor::{ConvOptions, DType, Device, PoolOptions, Result, Tensor, autograd};

/// Images of a step.
const BATCH: usize = 64;

/// LeNet-5 with rectified linear units, for images of 28 x 28.
struct LeNet {
    parameters: Vec<Tensor>,
}

impl LeNet {
    fn new(device: &Device) -> Result<Self> {
        let shapes: [&[usize]; 10] = [
            &[6, 1, 5, 5],
            &[6],
            &[16, 6, 5, 5],
            &[16],
            &[400, 120],
            &[120],
            &[120, 84],
            &[84],
            &[84, 10],
            &[10],
        ];
        let parameter = |(seed, shape): (usize, &&[usize])| {
            Tensor::randn_seeded(shape, seed as u64, DType::F32, device)?.mul(0.05)?.requires_grad()
        };
        Ok(Self { parameters: shapes.iter().enumerate().map(parameter).collect::<Result<_>>()? })
    }

    fn forward(&self, images: &Tensor) -> Result<Tensor> {
        let [c1, b1, c2, b2, w3, b3, w4, b4, w5, b5] = &self.parameters[..] else {
            panic!("ten parameters")
        };
        let pool = PoolOptions::new([2, 2]);
        let padded = ConvOptions { padding: [[2, 2]; 2], ..ConvOptions::default() };
        let x = images.conv2d(c1, Some(b1), &padded)?.relu()?.max_pool2d(&pool)?;
        let x = x.conv2d(c2, Some(b2), &ConvOptions::default())?.relu()?.max_pool2d(&pool)?;
        let x = x.reshape(&[images.shape()[0], 400])?;
        let x = x.matmul(w3)?.add(b3)?.relu()?;
        let x = x.matmul(w4)?.add(b4)?.relu()?;
        x.matmul(w5)?.add(b5)
    }

    /// Computes the loss and moves the parameters against its gradient.
    fn step(&mut self, images: &Tensor, labels: &Tensor) -> Result<Tensor> {
        let loss = self.forward(images)?.log_softmax(&[1])?.gather(1, labels)?.mean_all()?.neg()?;
        loss.backward()?;
        for parameter in &mut self.parameters {
            if let Some(gradient) = parameter.grad() {
                let moved = autograd::no_grad(|| parameter.sub(&gradient.mul(0.01)?))?;
                moved.record()?;
                *parameter = moved.requires_grad()?;
            }
        }
        Ok(loss.detach())
    }
}

fn report(what: &str, [median, fastest]: [f64; 2]) {
    println!("{what:<45} {median:>9.0} us median, {fastest:>9.0} us fastest");
}

/// Returns the median and the fastest time of a call in microseconds.
fn measure(rounds: usize, mut call: impl FnMut() -> Result<()>) -> Result<[f64; 2]> {
    for _ in 0..rounds / 10 + 1 {
        call()?;
    }
    let mut times = Vec::with_capacity(rounds);
    for _ in 0..rounds {
        let start = Instant::now();
        call()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_by(f64::total_cmp);
    Ok([times[rounds / 2], times[0]])
}

fn run(device: &Device) -> Result<()> {
    let images = Tensor::rand_seeded(&[BATCH, 1, 28, 28], 1, DType::F32, device)?;
    let labels: Vec<i32> = (0..BATCH as i32).map(|i| i * 7 % 10).collect();
    let labels = Tensor::from_slice(&labels, &[BATCH, 1], device)?;
    let mut network = LeNet::new(device)?;
    let forward =
        measure(200, || autograd::no_grad(|| network.forward(&images)?.to_vec::<f32>()).map(drop))?;
    report(&format!("LeNet-5, batch {BATCH}, forward"), forward);
    let step = measure(200, || network.step(&images, &labels)?.item::<f32>().map(drop))?;
    report(&format!("LeNet-5, batch {BATCH}, training step"), step);
    convolutions(device)?;
    layers(device)
}

fn convolutions(device: &Device) -> Result<()> {
    for (name, image, kernel, padding) in [
        ("conv2d 64x1x28x28, 6x5x5", [BATCH, 1, 28, 28], [6, 1, 5, 5], 2),
        ("conv2d 64x6x14x14, 16x5x5", [BATCH, 6, 14, 14], [16, 6, 5, 5], 0),
        ("conv2d 16x64x28x28, 64x3x3", [16, 64, 28, 28], [64, 64, 3, 3], 1),
    ] {
        let x = Tensor::randn_seeded(&image, 1, DType::F32, device)?;
        let w = Tensor::randn_seeded(&kernel, 2, DType::F32, device)?;
        let options = ConvOptions { padding: [[padding; 2]; 2], ..ConvOptions::default() };
        let forward = measure(50, || x.conv2d(&w, None, &options)?.record())?;
        report(&format!("{name}, forward"), forward);
        let g = x.conv2d(&w, None, &options)?;
        for (what, x, w) in
            [("image", x.requires_grad()?, w.clone()), ("weights", x.clone(), w.requires_grad()?)]
        {
            let backward = measure(50, || x.conv2d(&w, None, &options)?.backward_with(&g))?;
            report(&format!("{name}, forward and {what}"), backward);
        }
    }
    Ok(())
}

/// Measures the other layers of the network, each with and without its backward pass.
fn layers(device: &Device) -> Result<()> {
    type Layer = fn(&Tensor) -> Result<Tensor>;
    let cases: [(&str, &[usize], Layer); 6] = [
        ("relu 64x6x28x28", &[BATCH, 6, 28, 28], |x| x.relu()),
        ("max_pool2d 64x6x28x28, 2x2", &[BATCH, 6, 28, 28], |x| {
            x.max_pool2d(&PoolOptions::new([2, 2]))
        }),
        ("max_pool2d 64x16x10x10, 2x2", &[BATCH, 16, 10, 10], |x| {
            x.max_pool2d(&PoolOptions::new([2, 2]))
        }),
        ("matmul 64x400, 400x120", &[BATCH, 400], |x| {
            x.matmul(&Tensor::ones(&[400, 120], DType::F32, &x.device())?)
        }),
        ("bias 64x120", &[120], |x| Tensor::ones(&[BATCH, 120], DType::F32, &x.device())?.add(x)),
        ("log_softmax 64x10", &[BATCH, 10], |x| x.log_softmax(&[1])),
    ];
    for (name, shape, layer) in cases {
        let x = Tensor::randn_seeded(shape, 1, DType::F32, device)?;
        report(&format!("{name}, forward"), measure(100, || layer(&x)?.record())?);
        let g = layer(&x)?;
        let x = x.requires_grad()?;
        report(
            &format!("{name}, forward and backward"),
            measure(100, || layer(&x)?.backward_with(&g))?,
        );
    }
    Ok(())
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    let value =
        |name: &str| arguments.iter().position(|a| a == name).and_then(|i| arguments.get(i + 1));
    if let Some(threads) = value("--threads") {
        aleatron_cpu::threads::set_num_threads(threads.parse().unwrap()).unwrap();
    }
    let device = match value("--device") {
        Some(name) => Device::named(name).unwrap(),
        None => Device::Cpu,
    };
    println!("{device}, {} threads", aleatron_cpu::threads::get_num_threads().unwrap());
    run(&device).unwrap();
}
