//! Mutations of the generated Verilog, all of which a check must detect.

use crate::residual;
use crate::support::{Folder, config, write};
use aleatron_core::arithmetic::{Pool, PoolKind};
use aleatron_core::{Convolution, Polarity};
use aleatron_engine::network::{Activation, Network, NetworkBuilder, StreamConfig, ValueRange};
use aleatron_hardware::simulate::{self, Simulator};
use aleatron_hardware::{ClockGating, Error, Margin, Options, Output, Pipeline};

/// A mutation: a file, the text that it replaces, and the replacement.
type Mutant = (&'static str, &'static str, &'static str);

/// Returns weights of both signs, one of them 0.
fn weights(n: usize) -> Vec<f64> {
    (0..n).map(|k| ((k * 37 % 19) as f64 - 9.0) / 9.0).collect()
}

/// Checks the circuit of a network, which must equal the engine, then with each mutation, which
/// must not.
fn kill(
    name: &str,
    network: &Network,
    config: &StreamConfig,
    options: &Options,
    x: &[f64],
    mutants: &[Mutant],
) {
    let folder = Folder::new(name);
    let design = write(&folder, network, config, options, x);
    let run = || simulate::check(folder.path(), &design, Simulator::Icarus);
    run().unwrap();
    let mut survivors = Vec::new();
    for (file, from, to) in mutants {
        let path = folder.path().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} has no {from}");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        match run() {
            Err(Error::Different { .. }) => {}
            Ok(_) => survivors.push(format!("{file}: {from} -> {to}")),
            Err(error) => panic!("{file}: {from} -> {to}: {error}"),
        }
        std::fs::write(&path, text).unwrap();
    }
    assert!(survivors.is_empty(), "{survivors:#?}");
}

#[test]
fn mutations_in_layers_of_integers_are_detected() {
    let network = NetworkBuilder::new("mutants", &[5])
        .dense("first", 5, &weights(20), &[0.5, -0.25, 0.125, 0.0])
        .activation(Activation::Relu)
        .dense("second", 4, &weights(12), &[0.1, -0.2, 0.3])
        .build()
        .unwrap();
    let x = [0.1, 0.9, -0.4, 1.0, -0.75, 0.0, -1.0, 0.3, 0.6, 0.2];
    let options = Options { lanes: Some(3), ..Options::default() };
    let mutants = [
        ("rtl/al_multiply_add.v", "= x * w", "= x * w + 1'b1"),
        ("rtl/al_multiply_add.v", "^ {COUNT{negative}}", ""),
        ("rtl/al_multiply_add.v", "{{(COUNT - 1) {1'b0}}, negative}", "{COUNT{1'b0}}"),
        ("rtl/al_multiply_add.v", "next & {COUNT{!init}}", "next"),
        // Hidden values above the scale of the second layer saturate to the greatest magnitude.
        ("rtl/net_mutants_n_second.v", "| {5{in_data[5]}}", ""),
        ("rtl/net_mutants_n_first.v", "in_data[6], ", "1'b0, "),
        ("rtl/net_mutants_n_first.v", "x[5] ^ w[5]", "w[5]"),
        ("rtl/net_mutants_n_first_weights.v", "4'd0: weight0 = 6'h", "4'd0: weight0 = 6'h0 & 6'h"),
        ("rtl/net_mutants_n_first_weights.v", "weight1({group, k})", "weight0({group, k})"),
    ];
    kill("mutants-integers", &network, &config(1, "int6"), &options, &x, &mutants);
}

#[test]
fn mutations_in_dense_layers_are_detected() {
    let network = NetworkBuilder::new("mutants", &[5])
        .dense("first", 5, &weights(20), &[0.5, -0.25, 0.125, 0.0])
        .activation(Activation::Relu)
        .dense("second", 4, &weights(12), &[0.1, -0.2, 0.3])
        .build()
        .unwrap();
    let x = [0.1, 0.9, -0.4, 1.0, -0.75, 0.0, -1.0, 0.3, 0.6, 0.2];
    let options =
        Options { clock_gating: ClockGating::Cells, lanes: Some(3), ..Options::default() };
    let mutants = [
        ("rtl/al_compare.v", "} < t[", "} <= t["),
        ("rtl/al_lfsr.v", "u <= SEED", "u <= SEED ^ 1"),
        ("rtl/al_lfsr.v", "^(u & TAPS)", "~^(u & TAPS)"),
        ("rtl/al_lfsr.v", "{u[WIDTH-2:0], ^(u & TAPS)}", "{^(u & TAPS), u[WIDTH-1:1]}"),
        ("rtl/al_products.v", "(x & w) ^ negative", "(x | w) ^ negative"),
        ("rtl/al_adders.v", "(a & b) | (half & c)", "a & b"),
        ("rtl/al_adders.v", "half ^ c", "half | c"),
        ("rtl/al_half_adders.v", "carry = a & b", "carry = a | b"),
        ("rtl/al_accumulator.v", "~(sum * BITS)", "-(sum * BITS)"),
        ("rtl/al_accumulator.v", "addend = count & {COUNT{!init}}", "addend = count"),
        ("rtl/al_accumulator.v", "sum & {COUNT{!init}}", "sum"),
        ("rtl/al_accumulator.v", "count <= next", "count <= next + 1'b1"),
        ("rtl/al_clock_gate.v", "clk & open", "clk"),
        ("rtl/al_clock_gate.v", "if (!clk)", "if (clk)"),
        ("rtl/al_accumulate.v", "sum < LOW ? LOW", "sum < LOW ? HIGH"),
        ("rtl/al_accumulate.v", "&& count[COUNT-1]", "&& 1'b0"),
        ("rtl/al_accumulate.v", "wide <<< SHIFT", "wide <<< (SHIFT + 1)"),
        ("rtl/al_scale.v", "wide_multiplier + $signed(HALF)", "wide_multiplier"),
        ("rtl/al_saturate.v", "moved > ONE ? ONE", "moved > ONE ? ONE - 1"),
        ("rtl/al_control.v", "LENGTH - 1;", "LENGTH - 2;"),
        ("rtl/al_control.v", "group <= group + 1'b1", "group <= group"),
        ("rtl/al_register.v", "!out_valid || out_ready", "1'b1"),
        ("rtl/al_register.v", "in_ready && in_valid", "in_valid"),
        (
            "rtl/al_window.v",
            "if (rst) begin\n            ready <= 1'b0;\n            channel <= {C{1'b0}};",
            "if (rst) begin\n            ready <= 1'b0;",
        ),
        ("rtl/al_index.v", "PERIOD - 1", "PERIOD - 2"),
        ("rtl/net_mutants_n_first_weights.v", " < ", " <= "),
        ("rtl/net_mutants_n_first_weights.v", "all[0]", "all[1]"),
        ("rtl/net_mutants_n_first_weights.v", "= signs(group)", "= ~signs(group)"),
        ("rtl/net_mutants_n_second_accumulate.v", "offset_of(neuron)", "offset_of(2'd0)"),
        ("rtl/net_mutants_n_first.v", "compared & {5{run}}", "compared"),
        ("rtl/net_mutants.v", "m_axis_tlast = left ==", "m_axis_tlast = left !="),
        ("rtl/net_mutants.v", "s_axis_tlast != is_last", "s_axis_tlast == is_last"),
    ];
    kill("mutants", &network, &config(13, "lfsr"), &options, &x, &mutants);
    // A value at a bound is the bound: this mutation is equivalent.
    let folder = Folder::new("equivalent-mutant");
    let design = write(&folder, &network, &config(13, "lfsr"), &options, &x);
    let path = folder.path().join("rtl/al_accumulate.v");
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replacen("sum > HIGH", "sum >= HIGH", 1)).unwrap();
    simulate::check(folder.path(), &design, Simulator::Icarus).unwrap();
}

#[test]
fn mutations_in_convolutions_are_detected() {
    let convolution = Convolution::conv2d([2, 5, 4], 3, [3, 2]).with_paddings([[1, 0], [0, 1]]);
    let network = NetworkBuilder::new("mutants", &[2, 5, 4])
        .convolution("conv", convolution, &weights(36), &[0.1, -0.2, 0.3])
        .polarity(Polarity::Bipolar)
        .activation(Activation::Relu)
        .pool(Pool::new(PoolKind::Max, [2, 2]))
        .dense("last", 12, &weights(36), &[])
        .polarity(Polarity::Bipolar)
        .build()
        .unwrap();
    let x: Vec<f64> = (0..120).map(|k| (k * k * 7 % 33) as f64 / 16.0 - 1.0).collect();
    let options =
        Options { output: Output::Class, pipeline: Pipeline::Registers, ..Options::default() };
    let mutants = [
        ("rtl/al_sobol.v", "~k & (k + 1'b1)", "k & (k + 1'b1)"),
        ("rtl/al_sobol.v", "if (init) u <= {WIDTH{1'b0}}", "if (init) u <= {WIDTH{1'b1}}"),
        ("rtl/al_sobol.v", "u ^ flip", "u | flip"),
        ("rtl/al_products.v", "~(x ^ w) & in_image", "~(x ^ w)"),
        ("rtl/al_products.v", "~(x ^ w) & in_image", "(x ^ w) & in_image"),
        ("rtl/al_window.v", "FIRST_U = REACH_COLUMNS - 1", "FIRST_U = REACH_COLUMNS - 2"),
        ("rtl/al_window.v", "y + 1 > TOP", "y > TOP"),
        ("rtl/al_window.v", "in_image ? in_data : PADDING", "in_data"),
        ("rtl/al_window.v", "(EVERY_CHANNEL != 0 || last_channel)", "last_channel"),
        ("rtl/al_pool.v", "> $signed(greatest)", "< $signed(greatest)"),
        ("rtl/al_argmax.v", "is_first || ", ""),
        ("rtl/al_argmax.v", "$signed(in_data) > $signed(best)", "in_data > best"),
        ("rtl/al_control.v", "run_later  <= run", "run_later  <= init"),
        ("rtl/al_control.v", "PIPELINE != 0 ? DRAIN : READ", "READ"),
        ("rtl/al_control.v", "position + 1'b1", "position"),
        ("rtl/net_mutants_n_conv_accumulate.v", " + padding_of(position)", ""),
    ];
    kill("mutants-conv", &network, &config(9, "sobol"), &options, &x, &mutants);
}

#[test]
fn mutations_in_branches_are_detected() {
    let network = residual::network().with_polarity(Polarity::Signed).unwrap();
    let config = config(3, "sobol").range(ValueRange::Saturate);
    // Enough samples for a full circuit, in which branches wait.
    let x: Vec<f64> = (0..300).map(|k| (k * k * 7 % 33) as f64 / 16.0 - 1.0).collect();
    let mutants = [
        ("rtl/al_fifo.v", "if (read) first <=", "if (write) first <="),
        ("rtl/al_fork.v", "~taken", "{N{1'b1}}"),
        ("rtl/al_pool.v", "(sum << 1) + DIVISOR", "sum << 1"),
    ];
    kill("mutants-residual", &network, &config, &Options::default(), &x, &mutants);
}

#[test]
fn mutations_in_early_termination_are_detected() {
    let network = |biases: &[f64]| {
        NetworkBuilder::new("mutants", &[6])
            .dense("first", 6, &weights(48), &[0.25; 8])
            .activation(Activation::Relu)
            .dense("last", 8, &weights(40), biases)
            .build()
            .unwrap()
    };
    let x: Vec<f64> = (0..72).map(|k| (k * k * 7 % 33) as f64 / 32.0).collect();
    let options = Options {
        output: Output::Class,
        early_termination: Some(Margin::new(0.75).unwrap()),
        clock_gating: ClockGating::Cells,
        ..Options::default()
    };
    let mutants = [
        ("rtl/al_decide.v", "lead >= margin", "lead < margin"),
        ("rtl/al_decide.v", "is_first || ", ""),
        ("rtl/al_decide.v", "$signed(in_data) > $signed(best)", "in_data > best"),
        ("rtl/al_decide.v", "if (is_best) second <= best;", "if (1'b0) second <= best;"),
        ("rtl/al_decide.v", "read <= stop ? {READ{1'b0}}", "read <= stop ? read"),
        ("rtl/al_decide.v", "!out_valid && !verdict", "1'b1"),
        ("rtl/al_decide.v", "read + 1'b1", "read"),
        ("rtl/al_control.v", "FIRST_CHECK - 1", "FIRST_CHECK - 5"),
        ("rtl/al_control.v", "(k & (k + 1'b1)) == {CYCLE{1'b0}}", "1'b1"),
        ("rtl/al_control.v", "resume ? RUN : START", "START"),
        ("rtl/al_control.v", "resume = !stop", "resume = 1'b0"),
        ("rtl/al_control.v", "if (is_check || ", "if ("),
        ("rtl/al_control.v", "is_waiting = waits", "is_waiting = 1'b0"),
        ("rtl/net_mutants_n_last_accumulate.v", "{read_number, neuron}", "{2'd0, neuron}"),
    ];
    let config = config(40, "sobol");
    kill("mutants-early", &network(&[-0.3, 0.2, -0.1, 0.25, 0.4]), &config, &options, &x, &mutants);
    // The best score comes first, and the second is found among the others.
    let second = "is_second || $signed(in_data) > $signed(second)";
    let mutants = [
        ("rtl/al_decide.v", second, "is_second"),
        ("rtl/al_decide.v", second, "$signed(in_data) > $signed(second)"),
    ];
    kill(
        "mutants-second",
        &network(&[0.45, -0.3, 2.05, 0.1, 0.2]),
        &config,
        &options,
        &x,
        &mutants,
    );
}
