//! The backend that chooses: the CPU or one of the accelerators, whichever was measured to be fastest for a layer and a batch size.

use super::placement::{self, Measurement};
use super::{Backend, Batch, Device, DeviceInfo, PrepareOptions, PreparedLayer, open};
use aleatron_core::backend::{CountMethod, Inputs};
use aleatron_core::{Cancel, Error, LayerSpec, Result, Weights};
use aleatron_cpu::CpuBackend;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

/// Microseconds in which no accelerator has ever answered: a call the CPU makes in less is not worth opening a device for.
const ACCELERATOR_FLOOR_US: f64 = 8.0;

/// Pairs of words below which a call may be so short.
const SMALL_CALL_WORDS: usize = 1 << 18;

/// Chooses among the CPU, the default GPU and the first card of CUDA. A driver that computes on the CPU is never chosen.
#[derive(Debug, Clone, Default)]
pub struct AutoBackend(());

impl AutoBackend {
    /// The backend.
    #[must_use]
    pub const fn new() -> Self {
        Self(())
    }
}

impl Backend for AutoBackend {
    fn name(&self) -> String {
        "auto".to_owned()
    }

    fn prepare(
        &self,
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> Result<Box<dyn PreparedLayer>> {
        let cpu = CpuBackend::CURRENT.prepare(spec, weights, options)?;
        // Tables leave so little to do that sending it elsewhere takes longer.
        let stays = options.method.resolve(spec)? == CountMethod::Tables;
        Ok(Box::new(AutoLayer {
            spec: spec.clone(),
            weights: weights.clone(),
            max_batch: options.max_batch,
            cpu,
            stays: AtomicBool::new(stays),
            accelerators: OnceLock::new(),
            choices: RwLock::default(),
            notes: Mutex::default(),
        }))
    }
}

/// A layer on the CPU, and on the accelerators once those are worth measuring.
#[derive(Debug)]
struct AutoLayer {
    spec: LayerSpec,
    weights: Weights,
    max_batch: usize,
    cpu: Box<dyn PreparedLayer>,
    /// Whether nothing but the CPU is tried.
    stays: AtomicBool,
    /// Those of the machine, once it was asked for them.
    accelerators: OnceLock<Vec<Accelerator>>,
    /// By the batch size, rounded up to a power of two.
    choices: RwLock<BTreeMap<usize, Choice>>,
    notes: Mutex<Vec<String>>,
}

/// A device, and the layer on it.
#[derive(Debug)]
struct Accelerator {
    info: DeviceInfo,
    /// What measurements call it.
    name: String,
    /// Prepared on first use; `None` where it cannot hold the layer.
    layer: OnceLock<Option<Box<dyn PreparedLayer>>>,
}

impl Accelerator {
    fn new(info: DeviceInfo) -> Self {
        let name = format!("{}, {} {}", info.name, info.interface, info.driver);
        Self { info, name, layer: OnceLock::new() }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Choice {
    Cpu,
    /// By its place.
    Accelerator(usize),
}

impl PreparedLayer for AutoLayer {
    fn counts(&self, batch: &Batch<'_>, cancel: Cancel<'_>) -> Result<Vec<u64>> {
        let n_samples = batch.check(&self.spec)?;
        if let Choice::Accelerator(place) = self.choice(batch, n_samples, cancel)?
            && let Some(layer) = self.layer_at(place)
        {
            match layer.counts(batch, cancel) {
                Err(error) if error.backend_fault().is_some() => self.give_up(&error),
                counts => return counts,
            }
        }
        self.cpu.counts(batch, cancel)
    }

    fn backend_for(&self, n_samples: usize) -> Option<String> {
        match self.known(n_samples)? {
            Choice::Cpu => self.cpu.backend_for(n_samples),
            Choice::Accelerator(place) => self.layer_at(place)?.backend_for(n_samples),
        }
    }

    fn notes(&self) -> Vec<String> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl AutoLayer {
    fn known(&self, n_samples: usize) -> Option<Choice> {
        if self.stays.load(Ordering::Relaxed) || super::is_forked() {
            return Some(Choice::Cpu);
        }
        let choices = self.choices.read().unwrap_or_else(PoisonError::into_inner);
        choices.get(&n_samples.next_power_of_two()).copied()
    }

    /// The choice for a call, measured on the call itself where it is the first of its kind.
    fn choice(&self, batch: &Batch<'_>, n_samples: usize, cancel: Cancel<'_>) -> Result<Choice> {
        // Streams that are encoded lie in the CPU's memory.
        if n_samples == 0 || matches!(batch.inputs, Inputs::Streams(_) | Inputs::SignedStreams { .. }) {
            return Ok(Choice::Cpu);
        }
        if let Some(choice) = self.known(n_samples) {
            return Ok(choice);
        }
        let choice = self.measured(batch, n_samples, cancel)?;
        let mut choices = self.choices.write().unwrap_or_else(PoisonError::into_inner);
        choices.insert(n_samples.next_power_of_two(), choice);
        Ok(choice)
    }

    fn measured(&self, batch: &Batch<'_>, n_samples: usize, cancel: Cancel<'_>) -> Result<Choice> {
        let time = |layer: &dyn PreparedLayer| placement::time(|| layer.counts(batch, cancel).map(drop));
        // Listing devices alone takes longer than a few such calls.
        let pairs = self.spec.weight_words().saturating_mul(n_samples);
        if pairs < SMALL_CALL_WORDS && time(&*self.cpu)? < ACCELERATOR_FLOOR_US {
            return Ok(Choice::Cpu);
        }
        let accelerators = self
            .accelerators
            .get_or_init(|| super::accelerators().into_iter().map(Accelerator::new).collect());
        if accelerators.is_empty() {
            return Ok(Choice::Cpu);
        }
        let cpu = "cpu".to_owned();
        let mut backends = vec![cpu.clone()];
        backends.extend(accelerators.iter().map(|accelerator| accelerator.name.clone()));
        let tier = aleatron_cpu::Tier::current()?.name();
        let kind = placement::kind(&self.spec, n_samples, &backends, tier, aleatron_cpu::get_num_threads()?);
        let measurement = match placement::lookup(&kind) {
            Some(measurement) => measurement,
            None => {
                let mut measurement = Measurement::new();
                for accelerator in accelerators {
                    let Some(layer) = self.prepared(accelerator) else { continue };
                    match time(layer) {
                        Ok(us) => drop(measurement.insert(accelerator.name.clone(), us)),
                        Err(error) if error.backend_fault().is_some() => {
                            self.note(format!("{} is not used: {error}", accelerator.info.device));
                        }
                        Err(error) => return Err(error),
                    }
                }
                // What no accelerator can run is not worth a measurement.
                if measurement.is_empty() {
                    return Ok(Choice::Cpu);
                }
                measurement.insert(cpu, time(&*self.cpu)?);
                placement::remember(kind, measurement.clone());
                measurement
            }
        };
        let fastest = placement::fastest(&measurement);
        let place = accelerators.iter().position(|accelerator| fastest == Some(&*accelerator.name));
        // The winner is of no use where it cannot hold the layer.
        Ok(match place {
            Some(place) if self.prepared(&accelerators[place]).is_some() => Choice::Accelerator(place),
            _ => Choice::Cpu,
        })
    }

    /// The layer on the accelerator at a place, if it was prepared.
    fn layer_at(&self, place: usize) -> Option<&dyn PreparedLayer> {
        self.accelerators.get()?.get(place)?.layer.get()?.as_deref()
    }

    /// The layer on an accelerator, prepared on first use.
    fn prepared<'a>(&self, accelerator: &'a Accelerator) -> Option<&'a dyn PreparedLayer> {
        let device = &accelerator.info.device;
        accelerator.layer.get_or_init(|| self.prepare_on(device, open(device))).as_deref()
    }

    /// The layer on a device; `None` where it cannot be opened or cannot hold the layer, with a note of why.
    fn prepare_on(
        &self,
        device: &Device,
        backend: crate::Result<Arc<dyn Backend>>,
    ) -> Option<Box<dyn PreparedLayer>> {
        let options = PrepareOptions { max_batch: self.max_batch, ..PrepareOptions::default() };
        match backend.and_then(|backend| Ok(backend.prepare(&self.spec, &self.weights, &options)?)) {
            Ok(layer) => Some(layer),
            Err(error) => {
                self.note(format!("{device} is not used: {error}"));
                None
            }
        }
    }

    /// Stays on the CPU from now on, and says why.
    fn give_up(&self, error: &Error) {
        self.note(format!("the layer moved to the CPU: {error}"));
        self.stays.store(true, Ordering::Relaxed);
    }

    fn note(&self, note: String) {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if !notes.contains(&note) {
            notes.push(note);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::super::fake::{FakeBackend, FakeLayer, device_info, fault};
    use super::*;
    use crate::backend::placement::CACHE_VARIABLE;
    use aleatron_core::{BackendFault, Encoding, Length, Polarity, SampleSeed};
    use std::time::Duration;

    /// Far longer than a call that does nothing takes, and far shorter than `SLOWER`, also on a machine that does other things.
    const SLOW: Duration = Duration::from_millis(2);
    const SLOWER: Duration = Duration::from_millis(40);

    /// A layer of two inputs on a CPU, which answers 7, and on cards; a card cannot hold it where there is no layer on it.
    fn auto(bits: usize, cpu: FakeLayer, cards: Vec<Option<FakeLayer>>) -> AutoLayer {
        let (length, encoding) = (Length::new(bits).unwrap(), Encoding::Bernoulli { seed: 1 });
        let spec = LayerSpec::dense(2, 1, length, Polarity::Unipolar, encoding).unwrap();
        let accelerator = |(k, layer): (usize, Option<FakeLayer>)| {
            let layer = layer.map(|layer| Box::new(layer) as Box<dyn PreparedLayer>);
            let name = format!("card {k}");
            Accelerator { info: device_info(Device::Cuda(k)), name, layer: OnceLock::from(layer) }
        };
        AutoLayer {
            weights: Weights::new(&spec, vec![0.5; 2]).unwrap(),
            spec,
            max_batch: 17,
            cpu: Box::new(cpu),
            stays: AtomicBool::new(false),
            accelerators: OnceLock::from(cards.into_iter().enumerate().map(accelerator).collect::<Vec<_>>()),
            choices: RwLock::default(),
            notes: Mutex::default(),
        }
    }

    fn cpu() -> FakeLayer {
        FakeLayer::new("cpu", Ok(vec![7]))
    }

    fn card() -> FakeLayer {
        FakeLayer::new("card", Ok(vec![3]))
    }

    fn count(layer: &AutoLayer, n_samples: usize) -> Result<Vec<u64>> {
        layer.counts(&Batch::values(&vec![0.5; 2 * n_samples], SampleSeed::new(0)), Cancel::NEVER)
    }

    /// A layer that is known to be fastest on its first card, whatever the batch.
    fn on_card(card: FakeLayer) -> AutoLayer {
        let layer = auto(64, cpu(), vec![Some(card)]);
        layer.choices.write().unwrap().extend([(1, Choice::Accelerator(0)), (2, Choice::Accelerator(0))]);
        layer
    }

    #[test]
    fn calls_go_where_they_are_fastest() {
        let layer = on_card(card());
        assert_eq!((count(&layer, 1), layer.backend_for(2)), (Ok(vec![3]), Some("card".to_owned())));
        // There is nothing to do, or it lies in the CPU's memory.
        assert_eq!(count(&layer, 0), Ok(vec![7]));
        let streams = Batch { inputs: Inputs::Streams(&[0, 0]), seed: SampleSeed::new(0) };
        assert_eq!(layer.counts(&streams, Cancel::NEVER), Ok(vec![7]));
        assert!(layer.notes().is_empty());
    }

    #[test]
    fn a_card_that_fails_is_given_up_with_a_note() {
        let card = FakeLayer::new("card", Err(fault(BackendFault::Lost)));
        let calls = card.calls();
        let layer = on_card(card);
        assert_eq!((count(&layer, 1), count(&layer, 2)), (Ok(vec![7]), Ok(vec![7])));
        assert_eq!((calls.load(Ordering::Relaxed), layer.backend_for(1)), (1, Some("cpu".to_owned())));
        let expected = format!("the layer moved to the CPU: {}", fault(BackendFault::Lost));
        assert_eq!(layer.notes(), [expected]);
        // What is wrong with the call is wrong on the CPU, too.
        let layer = on_card(FakeLayer::new("card", Err(Error::Cancelled)));
        assert_eq!((count(&layer, 1), layer.notes().len()), (Err(Error::Cancelled), 0));
    }

    #[test]
    fn cards_hold_layers_for_the_batches_asked_for() {
        let layer = auto(64, cpu(), Vec::new());
        let backend = Arc::new(FakeBackend::new([card()]));
        let prepare = || layer.prepare_on(&Device::Cuda(4), Ok(Arc::clone(&backend) as Arc<dyn Backend>));
        assert_eq!(prepare().and_then(|layer| layer.backend_for(1)).as_deref(), Some("card"));
        assert!(prepare().is_none() && prepare().is_none());
        assert_eq!(*backend.batches.lock().unwrap(), [17; 3]);
        // The same is said once.
        assert_eq!(layer.notes(), [format!("cuda:4 is not used: {}", fault(BackendFault::OutOfMemory))]);
        // A device of its own name is opened and holds the layer.
        let accelerator = Accelerator::new(device_info(Device::Cpu));
        assert_eq!(accelerator.name, "fake, fake fake");
        let prepared = layer.prepared(&accelerator).and_then(|layer| layer.backend_for(1));
        assert_eq!(prepared.as_deref(), Some("cpu"));
    }

    /// What was measured is kept on disk: a process of its own has a folder of its own for it.
    #[test]
    fn the_fastest_is_measured() {
        let folder = std::env::temp_dir().join(format!("aleatron-auto-{}", std::process::id()));
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args(["--exact", "backend::auto::tests::child_measures", "--ignored", "--nocapture"]);
        let output = child.env(CACHE_VARIABLE, &folder).output().unwrap();
        let _ = std::fs::remove_dir_all(&folder);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    #[test]
    #[ignore = "run by the_fastest_is_measured, in a process of its own"]
    fn child_measures() {
        let slow = || cpu().taking(SLOW);
        let choice = |layer: &AutoLayer, n_samples: usize| {
            count(layer, n_samples).map(|_| layer.known(n_samples).unwrap())
        };
        // The second of two cards is fastest, and is so from then on without being measured.
        let layer = auto(64, slow(), vec![Some(card().taking(SLOWER)), Some(card())]);
        assert_eq!(choice(&layer, 1), Ok(Choice::Accelerator(1)));
        let (first, second) = (card(), card().taking(SLOWER));
        let (first_calls, second_calls) = (first.calls(), second.calls());
        let again = auto(64, slow(), vec![Some(first), Some(second)]);
        assert_eq!(choice(&again, 1), Ok(Choice::Accelerator(1)));
        assert_eq!(first_calls.load(Ordering::Relaxed) + second_calls.load(Ordering::Relaxed), 1);
        // It is of no use where it cannot hold the layer.
        let gone = auto(64, slow(), vec![Some(card()), None]);
        assert_eq!(choice(&gone, 1), Ok(Choice::Cpu));
        // The CPU is fastest.
        let layer = auto(64, slow(), vec![Some(card().taking(SLOWER))]);
        assert_eq!(choice(&layer, 2), Ok(Choice::Cpu));
        // A card that fails is left out with a note; where it is the only one, nothing was measured.
        let failing = || FakeLayer::new("card", Err(fault(BackendFault::Failed)));
        let layer = auto(64, slow(), vec![Some(failing()), Some(card())]);
        assert_eq!(choice(&layer, 4), Ok(Choice::Accelerator(1)));
        assert_eq!(layer.notes(), [format!("cuda:0 is not used: {}", fault(BackendFault::Failed))]);
        for cards in [vec![], vec![None], vec![Some(failing())]] {
            let own = slow();
            let calls = own.calls();
            assert_eq!(choice(&auto(64, own, cards), 8), Ok(Choice::Cpu));
            // Once to warm up and three times for the short call, and once for the answer.
            assert_eq!(calls.load(Ordering::Relaxed), 5);
        }
        let cancelled = FakeLayer::new("card", Err(Error::Cancelled));
        assert_eq!(count(&auto(64, slow(), vec![Some(cancelled)]), 16), Err(Error::Cancelled));
        // A call that the CPU makes in no time is not worth asking for devices, unless it has 2^18 pairs of words.
        for (n_samples, asks) in [(7, false), (8, true)] {
            let card = card();
            let calls = card.calls();
            count(&auto(1 << 20, cpu(), vec![Some(card)]), n_samples).unwrap();
            assert_eq!(calls.load(Ordering::Relaxed) > 0, asks, "{n_samples}");
        }
    }
}
