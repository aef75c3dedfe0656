//! Layers on the backend that was measured to be fastest.

use super::super::placement;
use super::super::{Backend, Batch, Device, PrepareOptions, PreparedLayer, open};
use super::{Call, Choice, Chooser};
use aleatron_core::backend::{CountMethod, Inputs};
use aleatron_core::{Cancel, LayerSpec, Result, Weights};
use aleatron_cpu::CpuBackend;
use std::sync::Arc;

/// A layer on the CPU, and on accelerators that are worth measuring.
#[derive(Debug)]
pub(super) struct AutoLayer {
    spec: LayerSpec,
    weights: Weights,
    max_batch: usize,
    chooser: Chooser<dyn PreparedLayer>,
}

impl AutoLayer {
    pub(super) fn new(
        spec: &LayerSpec,
        weights: &Weights,
        options: &PrepareOptions<'_>,
    ) -> Result<Self> {
        let cpu = CpuBackend::CURRENT.prepare(spec, weights, options)?;
        // Tables leave so little work that transferring it takes longer.
        let stays = options.method.resolve(spec)? == CountMethod::Tables;
        let (spec, weights, max_batch) = (spec.clone(), weights.clone(), options.max_batch);
        Ok(Self { spec, weights, max_batch, chooser: Chooser::new(cpu, stays) })
    }

    fn choice(&self, batch: &Batch<'_>, n_samples: usize, cancel: Cancel<'_>) -> Result<Choice> {
        // Encoded streams are in host memory.
        if n_samples == 0
            || matches!(batch.inputs, Inputs::Streams(_) | Inputs::SignedStreams { .. })
        {
            return Ok(Choice::Cpu);
        }
        let kind = |backends: &[String]| {
            let tier = aleatron_cpu::Tier::current()?.name();
            let threads = aleatron_cpu::get_num_threads()?;
            Ok(placement::kind(&self.spec, n_samples, backends, tier, threads))
        };
        self.chooser.choice(&Call {
            n_samples,
            words: self.spec.weight_words().saturating_mul(n_samples),
            kind: &kind,
            time: &|layer| placement::time(|| layer.counts(batch, cancel).map(drop)),
            prepare: &|device: &Device| self.prepare_on(open(device)),
        })
    }

    fn prepare_on(
        &self,
        backend: crate::Result<Arc<dyn Backend>>,
    ) -> crate::Result<Box<dyn PreparedLayer>> {
        let options = PrepareOptions { max_batch: self.max_batch, ..PrepareOptions::default() };
        backend.and_then(|backend| Ok(backend.prepare(&self.spec, &self.weights, &options)?))
    }
}

impl PreparedLayer for AutoLayer {
    fn counts(&self, batch: &Batch<'_>, cancel: Cancel<'_>) -> Result<Vec<u64>> {
        let n_samples = batch.check(&self.spec)?;
        if let Choice::Accelerator(index) = self.choice(batch, n_samples, cancel)?
            && let Some(layer) = self.chooser.at(index)
        {
            match layer.counts(batch, cancel) {
                Err(error) if error.backend_fault().is_some() => self.chooser.give_up(&error),
                counts => return counts,
            }
        }
        self.chooser.cpu.counts(batch, cancel)
    }

    fn backend_for(&self, n_samples: usize) -> Option<String> {
        match self.chooser.known(n_samples)? {
            Choice::Cpu => self.chooser.cpu.backend_for(n_samples),
            Choice::Accelerator(index) => self.chooser.at(index)?.backend_for(n_samples),
        }
    }

    fn notes(&self) -> Vec<String> {
        self.chooser.notes()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::panic)]
    use super::super::super::fake::{FakeBackend, FakeLayer, device_info, fault};
    use super::super::{Accelerator, Choice};
    use super::*;
    use crate::backend::placement::CACHE_VARIABLE;
    use aleatron_core::{BackendFault, Encoding, Error, Length, Polarity, SampleSeed};
    use std::sync::atomic::Ordering;
    use std::sync::{Arc, OnceLock};
    use std::time::Duration;

    /// Far longer than a call that does nothing takes, and far shorter than `SLOWER`, also on a
    /// busy machine.
    const SLOW: Duration = Duration::from_millis(2);
    const SLOWER: Duration = Duration::from_millis(40);

    /// Returns a layer of two inputs on a CPU, which returns 7, and on GPUs; `None` is a GPU that
    /// cannot hold it.
    fn auto(bits: usize, cpu: FakeLayer, cards: Vec<Option<FakeLayer>>) -> AutoLayer {
        let (length, encoding) = (Length::new(bits).unwrap(), Encoding::Bernoulli { seed: 1 });
        let spec = LayerSpec::dense(2, 1, length, Polarity::Unipolar, encoding).unwrap();
        let accelerator = |(k, layer): (usize, Option<FakeLayer>)| {
            let layer = layer.map(|layer| Box::new(layer) as Box<dyn PreparedLayer>);
            let name = format!("card {k}");
            Accelerator {
                info: device_info(Device::Cuda(k)),
                name,
                prepared: OnceLock::from(layer),
            }
        };
        let mut chooser = Chooser::new(Box::new(cpu) as Box<dyn PreparedLayer>, false);
        chooser.accelerators =
            OnceLock::from(cards.into_iter().enumerate().map(accelerator).collect::<Vec<_>>());
        AutoLayer {
            weights: Weights::new(&spec, vec![0.5; 2]).unwrap(),
            spec,
            max_batch: 17,
            chooser,
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

    /// Returns a layer that is known to be fastest on its first GPU, for any batch.
    fn on_card(card: FakeLayer) -> AutoLayer {
        let layer = auto(64, cpu(), vec![Some(card)]);
        layer
            .chooser
            .choices
            .write()
            .unwrap()
            .extend([(1, Choice::Accelerator(0)), (2, Choice::Accelerator(0))]);
        layer
    }

    #[test]
    fn calls_go_to_the_fastest_backend() {
        let layer = on_card(card());
        assert_eq!(
            (count(&layer, 1), layer.backend_for(2)),
            (Ok(vec![3]), Some("card".to_owned()))
        );
        // There is nothing to compute, or the inputs are in host memory.
        assert_eq!(count(&layer, 0), Ok(vec![7]));
        let streams = Batch { inputs: Inputs::Streams(&[0, 0]), seed: SampleSeed::new(0) };
        assert_eq!(layer.counts(&streams, Cancel::NEVER), Ok(vec![7]));
        assert!(layer.notes().is_empty());
    }

    #[test]
    fn failing_accelerator_is_abandoned_with_a_note() {
        let card = FakeLayer::new("card", Err(fault(BackendFault::Lost)));
        let calls = card.calls();
        let layer = on_card(card);
        assert_eq!((count(&layer, 1), count(&layer, 2)), (Ok(vec![7]), Ok(vec![7])));
        assert_eq!(
            (calls.load(Ordering::Relaxed), layer.backend_for(1)),
            (1, Some("cpu".to_owned()))
        );
        let expected = format!("moved to the CPU: {}", fault(BackendFault::Lost));
        assert_eq!(layer.notes(), [expected]);
        // An invalid call also fails on the CPU.
        let layer = on_card(FakeLayer::new("card", Err(Error::Cancelled)));
        assert_eq!((count(&layer, 1), layer.notes().len()), (Err(Error::Cancelled), 0));
    }

    #[test]
    fn accelerators_hold_layers_for_the_requested_batches() {
        let layer = auto(64, cpu(), Vec::new());
        let backend = Arc::new(FakeBackend::new([card()]));
        let prepare = |_: &Device| layer.prepare_on(Ok(Arc::clone(&backend) as Arc<dyn Backend>));
        let prepared = || {
            let accelerator = Accelerator::new(device_info(Device::Cuda(4)));
            layer.chooser.prepared(&accelerator, &prepare).and_then(|layer| layer.backend_for(1))
        };
        assert_eq!(prepared().as_deref(), Some("card"));
        assert!(prepared().is_none() && prepared().is_none());
        assert_eq!(*backend.batches.lock().unwrap(), [17; 3]);
        // The same note appears once.
        assert_eq!(
            layer.notes(),
            [format!("cuda:4 is not used: {}", fault(BackendFault::OutOfMemory))]
        );
        // A device with its own name is opened and holds the layer.
        let accelerator = Accelerator::new(device_info(Device::Cpu));
        assert_eq!(accelerator.name, "fake, fake fake");
        let on_device = |device: &Device| layer.prepare_on(open(device));
        let prepared =
            layer.chooser.prepared(&accelerator, &on_device).and_then(|l| l.backend_for(1));
        assert_eq!(prepared.as_deref(), Some("cpu"));
    }

    /// Measurements are cached on disk: a separate process has a separate cache folder.
    #[test]
    fn fastest_backend_is_measured() {
        let folder = std::env::temp_dir().join(format!("aleatron-auto-{}", std::process::id()));
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child.args([
            "--exact",
            "backend::auto::layer::tests::child_measures",
            "--ignored",
            "--nocapture",
        ]);
        let output = child.env(CACHE_VARIABLE, &folder).output().unwrap();
        let _ = std::fs::remove_dir_all(&folder);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && text.contains("1 passed"), "{text}");
    }

    #[test]
    #[ignore = "run by fastest_backend_is_measured, in a separate process"]
    fn child_measures() {
        let slow = || cpu().taking(SLOW);
        let choice = |layer: &AutoLayer, n_samples: usize| {
            count(layer, n_samples).map(|_| layer.chooser.known(n_samples).unwrap())
        };
        // The second of two GPUs is fastest, and is used from then on without a measurement.
        let layer = auto(64, slow(), vec![Some(card().taking(SLOWER)), Some(card())]);
        assert_eq!(choice(&layer, 1), Ok(Choice::Accelerator(1)));
        let (first, second) = (card(), card().taking(SLOWER));
        let (first_calls, second_calls) = (first.calls(), second.calls());
        let again = auto(64, slow(), vec![Some(first), Some(second)]);
        assert_eq!(choice(&again, 1), Ok(Choice::Accelerator(1)));
        assert_eq!(first_calls.load(Ordering::Relaxed) + second_calls.load(Ordering::Relaxed), 1);
        // It is excluded if it cannot hold the layer.
        let gone = auto(64, slow(), vec![Some(card()), None]);
        assert_eq!(choice(&gone, 1), Ok(Choice::Cpu));
        // The CPU is fastest.
        let layer = auto(64, slow(), vec![Some(card().taking(SLOWER))]);
        assert_eq!(choice(&layer, 2), Ok(Choice::Cpu));
        // A failing GPU is excluded with a note; if it is the only one, nothing is measured.
        let failing = || FakeLayer::new("card", Err(fault(BackendFault::Failed)));
        let layer = auto(64, slow(), vec![Some(failing()), Some(card())]);
        assert_eq!(choice(&layer, 4), Ok(Choice::Accelerator(1)));
        assert_eq!(layer.notes(), [format!("cuda:0 is not used: {}", fault(BackendFault::Failed))]);
        for cards in [vec![], vec![None], vec![Some(failing())]] {
            let own = slow();
            let calls = own.calls();
            assert_eq!(choice(&auto(64, own, cards), 8), Ok(Choice::Cpu));
            // Once to warm up and three times for the short call, and once for the result.
            assert_eq!(calls.load(Ordering::Relaxed), 5);
        }
        let cancelled = FakeLayer::new("card", Err(Error::Cancelled));
        assert_eq!(count(&auto(64, slow(), vec![Some(cancelled)]), 16), Err(Error::Cancelled));
        // A call that is too short on the CPU is not worth listing devices, unless it has 2^18
        // pairs of words.
        for (n_samples, asks) in [(7, false), (8, true)] {
            let card = card();
            let calls = card.calls();
            count(&auto(1 << 20, cpu(), vec![Some(card)]), n_samples).unwrap();
            assert_eq!(calls.load(Ordering::Relaxed) > 0, asks, "{n_samples}");
        }
    }
}
