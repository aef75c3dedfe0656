//! The reference against the published known answers.

use aleatron_core::golden::{Answer, answers, dense_input};
use aleatron_core::{
    Encoding, LayerIndex, LayerSpec, Length, Polarity, Quantity, SampleSeed, StreamAddress,
    StreamMatrix, Threshold, Weights, philox, reference, threshold, weights,
};

#[test]
fn golden_file_has_every_kind_of_answer() {
    let answers = answers().unwrap();
    let count = |f: fn(&Answer) -> bool| answers.iter().filter(|a| f(a)).count();
    assert!(count(|a| matches!(a, Answer::Philox { .. })) >= 3);
    assert!(count(|a| matches!(a, Answer::Encode { .. })) >= 5);
    assert!(count(|a| matches!(a, Answer::Weight { .. })) >= 3);
    assert!(count(|a| matches!(a, Answer::Dense { .. })) >= 3);
}

#[test]
fn reference_gives_the_known_answers() {
    for answer in answers().unwrap() {
        match answer {
            Answer::Philox { counter, seed, words } => {
                assert_eq!(philox::philox4x32(counter, philox::key(seed)).to_vec(), words);
            }
            Answer::Encode { p, length, address, words } => {
                let t = Threshold::from_probability(p).unwrap();
                let stream = reference::encode(t, Length::new(length).unwrap(), address);
                assert_eq!(stream.words(), words, "encode {p} {length} {address:?}");
            }
            Answer::Weight { seed, neuron, input, value } => {
                let w = weights::random(seed, LayerIndex::ALONE, neuron, input, Polarity::Unipolar);
                assert_eq!(w, value);
            }
            Answer::Dense {
                n_inputs,
                n_neurons,
                length,
                weight_seed,
                input_seed,
                sample,
                counts,
            } => {
                let length = Length::new(length).unwrap();
                let encoding = Encoding::Bernoulli { seed: weight_seed };
                let spec =
                    LayerSpec::dense(n_inputs, n_neurons, length, Polarity::Unipolar, encoding)
                        .unwrap();
                let encode = |values: &[f64], address: StreamAddress| {
                    let thresholds =
                        threshold::thresholds(values, Polarity::Unipolar, Quantity::Value).unwrap();
                    let streams = (0..).zip(thresholds);
                    streams
                        .flat_map(|(u, t)| {
                            reference::encode(t, length, address.at_unit(u)).into_words()
                        })
                        .collect::<Vec<u64>>()
                };
                let mut weight_words = Vec::new();
                for neuron in 0..n_neurons as u32 {
                    let mut row = vec![0.0; n_inputs];
                    weights::fill_row(
                        weight_seed,
                        LayerIndex::ALONE,
                        neuron,
                        Polarity::Unipolar,
                        &mut row,
                    );
                    weight_words
                        .extend(encode(&row, StreamAddress::weight(weight_seed, 0, neuron)));
                }
                let inputs: Vec<f64> = (0..n_inputs).map(dense_input).collect();
                let input_words = encode(&inputs, StreamAddress::input(input_seed, 0, sample));
                let weights =
                    StreamMatrix::from_words(weight_words, n_inputs * n_neurons, length).unwrap();
                let inputs = StreamMatrix::from_words(input_words, n_inputs, length).unwrap();
                assert_eq!(reference::counts(&spec, &weights, &inputs), counts);
                // The layer has its own streams and weights.
                let random =
                    spec.weight_thresholds(&Weights::random(&spec, weight_seed).unwrap()).unwrap();
                assert_eq!(reference::weight_streams(&spec, &random), weights);
                let values: Vec<f64> = (0..n_inputs).map(dense_input).collect();
                let thresholds = spec.input_thresholds(&values).unwrap();
                let seed = SampleSeed::new(input_seed).starting_at(sample);
                assert_eq!(reference::input_streams(&spec, &thresholds, seed), inputs);
            }
        }
    }
}
