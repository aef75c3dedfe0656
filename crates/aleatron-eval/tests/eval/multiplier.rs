//! Statistics of multipliers over all products of 8-bit values.

use aleatron_core::generator::Warning;
use aleatron_eval::multiplier::{MAP_SIDE, MultiplierStats, Operand};

fn errors(x: &str, y: &str, length: usize) -> MultiplierStats {
    MultiplierStats::of(x.parse().unwrap(), y.parse().unwrap(), length).unwrap()
}

#[test]
fn multiplier_statistics_have_the_known_values() {
    let rounded = |value: f64| (value * 1e5).round() as i64;
    for (x, y, known) in [
        ("sobol:1", "sobol:2", [3735, 1843, 921, 451, 190]),
        ("lfsr:1", "lfsr:113", [15810, 15658, 8034, 1848, 304]),
    ] {
        let found = [16, 32, 64, 128, 256].map(|length| rounded(errors(x, y, length).mae));
        assert_eq!(found, known, "{x} {y}");
    }
    let error = errors("sobol:1", "sobol:2", 256);
    assert_eq!(rounded(error.rmse), 237);
    assert!(error.bias.abs() <= error.mae && error.mae <= error.rmse && error.rmse <= error.worst);
    assert_eq!(error.map.len(), MAP_SIDE * MAP_SIDE);
    let mean = error.map.iter().sum::<f64>() / error.map.len() as f64;
    assert!((mean - error.mae).abs() < 1e-12);
}

#[test]
fn correlation_separates_good_pairs_from_bad_ones() {
    // One sequence for both: the overlap is the greatest possible, so SCC is 1 wherever it is
    // defined.
    let same = errors("sobol:1", "sobol:1", 256);
    assert!((same.mean_scc - (255.0 / 256.0_f64).powi(2)).abs() < 1e-12, "{}", same.mean_scc);
    assert!(same.bias > 0.08);
    let good = errors("sobol:1", "sobol:2", 256);
    assert!(good.mean_zce < 0.003 && same.mean_zce > 0.08, "{} {}", good.mean_zce, same.mean_zce);
    // Random streams are as wrong as chance makes them: one run of one stream per operand.
    let random = errors("bernoulli:1", "bernoulli:2", 256);
    assert!(random.mae > 5.0 * good.mae && random.mae < 0.05, "{}", random.mae);
    assert_eq!(random, errors("bernoulli:1", "bernoulli:2", 256));
    let operand = |text: &str| text.parse::<Operand>().unwrap();
    let warning = operand("lfsr:1").warning(&operand("lfsr:113")).unwrap();
    assert_eq!(warning, Some(Warning::NeighbouringStates { steps: 10, width: 8 }));
    assert_eq!(operand("bernoulli").warning(&operand("bernoulli")).unwrap(), None);
}

/// Counters in natural and in bit-reversed order, multiplied by hand: a bit is one where the
/// sequence is below the value.
#[test]
fn error_map_of_a_multiplier_equals_a_computation_by_hand() {
    let found = MultiplierStats::of("ramp".parse().unwrap(), "vdc".parse().unwrap(), 64).unwrap();
    let block = 256 / MAP_SIDE;
    let error = |a: usize, b: usize| {
        let both =
            (0..64_usize).filter(|&t| t < a && ((t as u8).reverse_bits() as usize) < b).count();
        (both as f64 / 64.0 - (a * b) as f64 / 65536.0).abs()
    };
    for [row, column] in
        [[0, 0], [1, 3], [MAP_SIDE - 1, 2], [5, MAP_SIDE - 1], [MAP_SIDE / 2, MAP_SIDE / 4]]
    {
        let inside =
            (0..block * block).map(|k| error(row * block + k / block, column * block + k % block));
        let expected = inside.sum::<f64>() / (block * block) as f64;
        let shown = found.map[row * MAP_SIDE + column];
        assert!((shown - expected).abs() < 1e-12, "{row} {column}: {shown} {expected}");
    }
    let mean = found.map.iter().sum::<f64>() / found.map.len() as f64;
    assert!((mean - found.mae).abs() < 1e-12);
    let worst = (0..65536).map(|k| error(k / 256, k % 256)).fold(0.0, f64::max);
    assert_eq!((found.worst, found.x.as_str(), found.y.as_str()), (worst, "ramp", "vdc"));
    for text in ["ramp", "sobol:3", "bernoulli:5"] {
        assert_eq!(text.parse::<Operand>().unwrap().to_string(), text);
    }
    assert_eq!("bernoulli".parse::<Operand>().unwrap().to_string(), "bernoulli:0");
}
