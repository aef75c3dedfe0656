//! Invalid calls of the CPU backend are errors with the quantity, the index and the value. No call
//! panics or allocates memory that it cannot get.

use aleatron_core::backend::{PrepareOptions, WeightStreams};
use aleatron_core::lif::{LifDrive, LifParams, LifTrace};
use aleatron_core::{
    Backend, Connections, DenseShape, Encoding, Error as CoreError, LayerSpec, Length, Polarity,
    Quantity, StreamAddress, Threshold,
};
use aleatron_cpu::{Cpu, CpuBackend, Pool, Tier, get_num_threads, set_num_threads};

fn length(bits: usize) -> Length {
    Length::new(bits).unwrap()
}

fn mismatch(what: Quantity, expected: usize, actual: usize) -> CoreError {
    CoreError::Mismatch { what, expected, actual }
}

#[test]
fn encoding_with_wrong_sizes_is_an_error() {
    let cpu = Cpu::current().unwrap();
    let half = [Threshold::from_probability(0.5).unwrap(); 6];
    let address = StreamAddress::input(1, 0, 0);
    let bits = length(100);
    let ragged = |divisor| CoreError::Ragged { what: Quantity::Streams, actual: 6, divisor };
    assert_eq!(cpu.encode_rows(&half, 4, bits, address), Err(ragged(4)));
    assert_eq!(cpu.encode_rows(&half, 0, bits, address), Err(ragged(0)));
    assert_eq!(cpu.encode_rows(&[], 0, bits, address).unwrap().rows(), 0);
    let into = |words: usize| cpu.encode_rows_into(&half, 3, bits, address, &mut vec![0; words]);
    assert_eq!(into(11), Err(mismatch(Quantity::Words, 12, 11)));
    assert_eq!(into(13), Err(mismatch(Quantity::Words, 12, 13)));
    assert_eq!(into(12), Ok(()));
    let past = |what| CoreError::TooLarge { what, actual: (1 << 32) + 1, limit: 1 << 32 };
    assert_eq!(cpu.encode(&half, bits, address.at_unit(u32::MAX - 4)), Err(past(Quantity::Inputs)));
    assert!(cpu.encode(&half, bits, address.at_unit(u32::MAX - 5)).is_ok());
    assert_eq!(
        cpu.encode_rows(&half, 2, bits, address.at_row(u32::MAX - 1)),
        Err(past(Quantity::Row))
    );
    assert!(cpu.encode_rows(&half, 2, bits, address.at_row(u32::MAX - 2)).is_ok());
    let error = cpu.encode(&[half[0]; 1000], length(1 << 34), address).unwrap_err();
    assert!(matches!(error, CoreError::Memory { bytes, .. } if bytes == 1000 << 31), "{error}");

    let connections = Connections::from_rows([vec![0, 2], vec![1]], 3).unwrap();
    let connect = |thresholds: &[Threshold], words: usize, address| {
        cpu.encode_connections(&connections, thresholds, bits, address, &mut vec![0; words])
    };
    assert_eq!(connect(&half[..2], 4, address), Err(mismatch(Quantity::Weights, 3, 2)));
    assert_eq!(connect(&half[..3], 5, address), Err(mismatch(Quantity::Words, 6, 5)));
    assert_eq!(connect(&half[..3], 6, address.at_unit(u32::MAX - 1)), Err(past(Quantity::Inputs)));
    assert_eq!(connect(&half[..3], 6, address.at_row(u32::MAX)), Err(past(Quantity::Row)));
    assert_eq!(connect(&half[..3], 6, address.at_unit(u32::MAX - 2).at_row(u32::MAX - 1)), Ok(()));
}

#[test]
fn packing_with_wrong_sizes_is_an_error() {
    let cpu = Cpu::current().unwrap();
    assert_eq!(cpu.pack_into(&[1; 65], &mut [0]), Err(mismatch(Quantity::Words, 2, 1)));
    assert_eq!(cpu.pack_into(&[1; 64], &mut [0, 0]), Err(mismatch(Quantity::Words, 1, 2)));
    assert!(cpu.pack(&[]).is_empty());
    let short = |actual| CoreError::TooLarge { what: Quantity::Length, actual, limit: 128 };
    assert_eq!(cpu.unpack(&[0, 0], 129), Err(short(129)));
    assert_eq!(cpu.unpack(&[0, 0], usize::MAX), Err(short(usize::MAX as u128)));
    assert_eq!(cpu.unpack_into(&[0, 0], &mut [0; 129]), Err(short(129)));
    assert_eq!(cpu.and_popcount(&[1], &[1, 1]), Err(mismatch(Quantity::Words, 1, 2)));
    assert_eq!((cpu.popcount(&[]), cpu.and_popcount(&[], &[])), (0, Ok(0)));
    assert_eq!(cpu.row_ones(&[1, 3, 7], 0), [1, 2, 3]);
}

#[test]
fn layer_counts_with_wrong_sizes_are_errors() {
    let cpu = Cpu::current().unwrap();
    for polarity in [Polarity::Unipolar, Polarity::Bipolar] {
        let shape = DenseShape::new(3, 2, length(64), polarity).unwrap();
        let counts = |w: usize, ones: usize, x: usize| {
            cpu.dense_counts(&shape, &vec![0; w], &vec![0; ones], &vec![0; x])
        };
        assert_eq!(counts(5, 2, 3), Err(mismatch(Quantity::Words, 6, 5)));
        assert_eq!(counts(6, 1, 3), Err(mismatch(Quantity::Neurons, 2, 1)));
        let ragged = CoreError::Ragged { what: Quantity::Words, actual: 4, divisor: 3 };
        assert_eq!(counts(6, 2, 4), Err(ragged.clone()));
        assert_eq!(counts(6, 2, 0), Ok(vec![]));
        // More ones than a stream has bits give wrong counts, but no panic.
        assert_eq!(cpu.dense_counts(&shape, &[0; 6], &[1 << 40; 2], &[0; 3]).unwrap().len(), 2);

        let connections = Connections::from_rows([vec![0, 2], vec![1]], 3).unwrap();
        let counts = |w: usize, x: usize| {
            cpu.sparse_counts(&connections, length(64), polarity, &vec![0; w], &vec![0; x])
        };
        assert_eq!(counts(4, 3), Err(mismatch(Quantity::Words, 3, 4)));
        assert_eq!(counts(3, 4), Err(ragged));
        assert_eq!(counts(3, 0), Ok(vec![]));
    }
}

#[test]
fn layers_of_wrong_weight_streams_are_errors() {
    let encoding = Encoding::Bernoulli { seed: 1 };
    for polarity in Polarity::ALL {
        let spec = LayerSpec::dense(3, 2, length(65), polarity, encoding).unwrap();
        let prepare = |words: &[u64], negative: &[bool]| {
            let weights = WeightStreams { words, negative };
            let options = PrepareOptions::default();
            let layer = CpuBackend::CURRENT.prepare_streams(&spec, weights, &options);
            layer.map(|layer| layer.is_some())
        };
        let signs = if polarity == Polarity::Signed { 6 } else { 0 };
        assert_eq!(prepare(&[0; 12], &[true; 6][..signs]), Ok(true));
        assert_eq!(prepare(&[0; 11], &[true; 6][..signs]), Err(mismatch(Quantity::Words, 12, 11)));
        assert_eq!(prepare(&[0; 12], &[true; 5]), Err(mismatch(Quantity::Signs, signs, 5)));
        let dirty = CoreError::DirtyTail { stream: 2, length: 65 };
        let words = [0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0];
        assert_eq!(prepare(&words, &[false; 6][..signs]), Err(dirty));
    }
}

#[test]
fn lif_runs_with_wrong_sizes_are_errors() {
    let cpu = Cpu::current().unwrap();
    let (params, drive) = (LifParams::default(), LifDrive::default());
    let varying = cpu.lif_run_varying(params, drive, &[1, 2, 3], Some(&[1, 2]));
    assert_eq!(varying, Err(mismatch(Quantity::Noise, 3, 2)));
    assert!(cpu.lif_run(params, drive, 0).unwrap().spikes.is_empty());
    assert!(cpu.lif_run_varying(params, drive, &[], Some(&[])).unwrap().spikes.is_empty());
    assert!(cpu.lif_run_multi(params, drive, &[], 10).unwrap().spikes.is_empty());
    assert!(cpu.lif_run_multi(params, drive, &[1, 2], 0).unwrap().spikes.is_empty());
    let is_refused = |result: Result<_, CoreError>, expected: u128| {
        let error = result.map(|_: LifTrace| ()).unwrap_err();
        assert!(
            matches!(error, CoreError::Memory { what: Quantity::Trace, bytes, .. } if bytes == expected),
            "{error}"
        );
    };
    is_refused(cpu.lif_run(params, drive, usize::MAX), usize::MAX as u128 * 3);
    is_refused(cpu.lif_run(params, drive, 1 << 45), 3 << 45);
    is_refused(cpu.lif_run_multi(params, drive, &[0; 8], usize::MAX), usize::MAX as u128 * 24);
    is_refused(cpu.lif_run_multi(params, drive, &[0; 8], 1 << 42), 3 << 45);
}

#[test]
fn unknown_and_unavailable_tier_names_are_errors() {
    let names = ["avx512-vpopcntdq", "avx512bw", "avx512f", "avx2", "popcnt", "neon", "portable"];
    let available: Vec<_> = Tier::available().into_iter().map(Tier::name).collect();
    for name in names {
        match Tier::from_name(name) {
            Ok(tier) => assert!(tier.name() == name && available.contains(&name)),
            Err(aleatron_cpu::Error::UnavailableTier { name: asked, available: has }) => {
                assert_eq!((asked, &has), (name, &available));
                assert!(!available.contains(&name));
            }
            Err(other) => panic!("{other}"),
        }
    }
    // No machine has both the vector instructions of x86-64 and those of AArch64.
    assert!(available.len() < names.len());
    for name in ["", "AVX2", "avx2 ", "sse9"] {
        let error = Tier::from_name(name).unwrap_err();
        assert_eq!(
            error,
            aleatron_cpu::Error::UnknownTier { name: name.into(), known: names.to_vec() }
        );
    }
}

#[test]
fn too_many_threads_are_an_error() {
    let limit = aleatron_cpu::threads::max_threads();
    for threads in [usize::MAX, 1 << 40, limit + 1] {
        let error = Pool::new(threads).map(|_| ()).unwrap_err();
        let (actual, limit) = (threads as u128, limit as u128);
        assert_eq!(error, CoreError::TooLarge { what: Quantity::Threads, actual, limit }.into());
        let before = get_num_threads().unwrap();
        assert!(set_num_threads(threads).is_err());
        assert_eq!(get_num_threads().unwrap(), before);
    }
}
