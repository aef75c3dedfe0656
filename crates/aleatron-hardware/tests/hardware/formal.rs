//! Blocks of the library against their specification for all inputs, proven by the SAT solver of
//! Yosys at small widths.

use crate::support::{Folder, config, write};
use aleatron_core::Polarity;
use aleatron_engine::network::{Network, NetworkBuilder};
use aleatron_hardware::Options;
use std::process::Command;

/// The registers of a block.
#[derive(Clone, Copy, PartialEq)]
enum State {
    None,
    /// Registers whose values are known after a cycle with `init`.
    AfterInit,
}

/// Returns a network whose counters have seven input bits and five bits of count.
fn network() -> Network {
    let builder = NetworkBuilder::new("formal", &[7]).dense("only", 7, &[0.5; 7], &[]);
    builder.polarity(Polarity::Unipolar).build().unwrap()
}

/// Returns whether `wrong` is always 0 in a module with the given ports and body.
fn is_proven(folder: &Folder, name: &str, ports: &str, body: &str, state: State) -> bool {
    let text = format!("module {name}_proof ({ports}, output wire wrong);\n{body}\nendmodule\n");
    let file = format!("{name}_proof.v");
    std::fs::write(folder.path().join(&file), text).unwrap();
    let induction = match state {
        State::None => "",
        State::AfterInit => "-seq 1 -tempinduct -maxsteps 4 -set-at 1 init 1 ",
    };
    let script = format!(
        "read_verilog rtl/*.v {file}; hierarchy -check -top {name}_proof; proc; flatten; opt; memory; opt; \
         sat -verify {induction}-prove wrong 0 {name}_proof"
    );
    let yosys = Command::new("yosys")
        .args(["-q", "-p", &script])
        .current_dir(folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&yosys.stdout).into_owned()
        + &String::from_utf8_lossy(&yosys.stderr);
    // Yosys must refute a wrong block, not fail on it.
    assert!(yosys.status.success() || text.contains("proof did fail"), "{name}: {text}");
    yosys.status.success()
}

const BLOCKS: [(&str, &str, &str, State); 13] = [
    (
        "multiply_add",
        "input wire clk, input wire init, input wire run, input wire [1:0] x, input wire [1:0] w, input wire negative",
        "wire [5:0] count;
         al_multiply_add #(.WIDTH(2), .COUNT(6)) block
             (.clk(clk), .init(init), .run(run), .x(x), .w(w), .negative(negative), .count(count));
         wire [5:0] product = {4'd0, x} * {4'd0, w};
         reg [5:0] expected;
         always @(posedge clk)
             if (init) expected <= 0;
             else if (run) expected <= negative ? expected - product : expected + product;
         assign wrong = count != expected;",
        State::AfterInit,
    ),
    (
        "compare",
        "input wire [2:0] u, input wire [7:0] t",
        "wire [1:0] bits;
         al_compare #(.N(2), .WIDTH(3)) block (.u(u), .t(t), .bits(bits));
         assign wrong = bits != {t[7:4] > {1'b0, u}, t[3:0] > {1'b0, u}};",
        State::None,
    ),
    (
        "unipolar",
        "input wire [2:0] x, input wire [2:0] w",
        "wire [2:0] products;
         al_products #(.N(3), .POLARITY(0)) block (.x(x), .w(w), .negative(3'd0), .in_image(3'd7), .products(products));
         assign wrong = products[0] != (x[0] && w[0]) || products[1] != (x[1] && w[1]) || products[2] != (x[2] && w[2]);",
        State::None,
    ),
    (
        "bipolar",
        "input wire x, input wire w, input wire inside",
        "wire p;
         al_products #(.N(1), .POLARITY(1)) block (.x(x), .w(w), .negative(1'b0), .in_image(inside), .products(p));
         // Plus 1 times plus 1, or minus 1 times minus 1.
         wire signed [2:0] value = (x ? 3'sd1 : -3'sd1) * (w ? 3'sd1 : -3'sd1);
         assign wrong = p != (inside && value == 3'sd1);",
        State::None,
    ),
    (
        "signed",
        "input wire x, input wire w, input wire negative",
        "wire p;
         al_products #(.N(1), .POLARITY(2)) block (.x(x), .w(w), .negative(negative), .in_image(1'b1), .products(p));
         wire signed [2:0] value = (negative ? -3'sd1 : 3'sd1) * (x && w ? 3'sd1 : 3'sd0);
         assign wrong = $signed({2'b00, p}) != value + $signed({2'b00, negative});",
        State::None,
    ),
    (
        "counter",
        "input wire [6:0] bits, input wire [4:0] count",
        "wire [4:0] sum;
         al_count_7_5 block (.bits(bits), .count(count), .sum(sum));
         assign wrong = sum != count + bits[0] + bits[1] + bits[2] + bits[3] + bits[4] + bits[5] + bits[6];",
        State::None,
    ),
    (
        "accumulator",
        "input wire clk, input wire init, input wire run, input wire [1:0] ones",
        "wire [4:0] addend, count;
         al_accumulator #(.COUNT(5), .START(0), .LENGTH(9)) block
             (.clk(clk), .init(init), .run(run), .sum(addend + ones), .addend(addend), .count(count));
         reg [4:0] expected;
         always @(posedge clk) if (init) expected <= 0; else if (run) expected <= expected + ones;
         assign wrong = count != expected;",
        State::AfterInit,
    ),
    (
        "signed_accumulator",
        "input wire clk, input wire init, input wire run, input wire [1:0] ones",
        "wire [6:0] addend, count;
         al_accumulator #(.COUNT(7), .START(1), .LENGTH(9)) block
             (.clk(clk), .init(init), .run(run), .sum(addend + ones), .addend(addend), .count(count));
         reg [6:0] expected;
         always @(posedge clk) if (init) expected <= -7'd1 - 7'd9 * ones; else if (run) expected <= expected + ones;
         assign wrong = count != expected;",
        State::AfterInit,
    ),
    (
        "accumulate",
        "input wire [3:0] count, input wire signed [7:0] offset",
        "wire [5:0] value;
         al_accumulate #(.COUNT(4), .SIGNED_COUNT(1), .SHIFT(2), .SUM(8), .A(6), .LOW(-8'sd20), .HIGH(8'sd25)) block
             (.count(count), .offset(offset), .value(value));
         wire signed [7:0] sum = $signed(count) * 8'sd4 + offset;
         wire is_representable = offset > -8'sd90 && offset < 8'sd90;
         wire signed [5:0] limited = sum <= -8'sd20 ? -6'sd20 : sum >= 8'sd25 ? 6'sd25 : sum;
         assign wrong = is_representable && value != limited;",
        State::None,
    ),
    (
        "scale",
        "input wire signed [4:0] value, input wire [2:0] multiplier",
        "wire [6:0] result;
         al_scale #(.A(5), .M(3), .SHIFT(3), .P(9), .R(7)) block (.value(value), .multiplier(multiplier), .result(result));
         // The rounded quotient is the only integer q with 8 q - 4 <= product < 8 q + 4.
         wire signed [11:0] product = value * $signed({1'b0, multiplier});
         wire signed [11:0] q = {{5{result[6]}}, result};
         assign wrong = !(8 * q - 4 <= product && product < 8 * q + 4);",
        State::None,
    ),
    (
        "saturate",
        "input wire signed [5:0] level",
        "wire [3:0] plain, middle;
         wire [4:0] word;
         al_saturate #(.L(6), .V(3), .WORD(4)) block (.level(level), .word(plain));
         al_saturate #(.L(6), .V(3), .MIDDLE(1), .WORD(4)) bipolar (.level(level), .word(middle));
         al_saturate #(.L(6), .V(3), .SIGNED(1), .WORD(5)) with_sign (.level(level), .word(word));
         wire in_range = level > -6'sd27 && level < 6'sd27;
         wire signed [6:0] size = level < 0 ? -level : level;
         wire signed [6:0] moved = level + 6'sd4;
         assign wrong = plain != (level < 0 ? 0 : level > 8 ? 8 : level) || in_range && middle != (level < -4 ? 0 : level > 4 ? 8 : moved)
             || in_range && word != {level < 0, size > 8 ? 4'd8 : size[3:0]};",
        State::None,
    ),
    (
        "lfsr",
        "input wire clk, input wire init, input wire step",
        "wire [3:0] u;
         al_lfsr #(.WIDTH(4), .TAPS(4'b1100), .SEED(4'd5)) block (.clk(clk), .init(init), .step(step), .u(u));
         reg [3:0] v;
         always @(posedge clk)
             if (init) v <= 5;
             else if (step) v <= (v << 1) + (v[3] != v[2]);
         assign wrong = u != v;",
        State::AfterInit,
    ),
    (
        "sobol",
        "input wire clk, input wire init, input wire step",
        // Directions 8, 12, 10 and 15, and the XOR of those where the Gray code of the index has a
        // 1.
        "reg [3:0] k;
         always @(posedge clk) if (init) k <= 0; else if (step) k <= k + 1;
         wire [3:0] u, gray = k ^ (k >> 1);
         al_sobol #(.WIDTH(4), .CYCLE(4), .DIRECTIONS(16'hfac8)) block (.clk(clk), .init(init), .step(step && k != 15), .k(k), .u(u));
         reg over;
         always @(posedge clk) if (init) over <= 0; else if (step && k == 15) over <= 1;
         assign wrong = !over && u != ((gray[0] ? 8 : 0) ^ (gray[1] ? 12 : 0) ^ (gray[2] ? 10 : 0) ^ (gray[3] ? 15 : 0));",
        State::AfterInit,
    ),
];

#[test]
fn library_blocks_equal_their_specification() {
    let folder = Folder::new("formal");
    // The circuit of streams has the counters, that of integers the multiplier.
    write(&folder, &network(), &config(1, "int4"), &Options::default(), &[0.5; 7]);
    write(&folder, &network(), &config(4, "lfsr"), &Options::default(), &[0.5; 7]);
    for (name, ports, body, state) in BLOCKS {
        assert!(
            is_proven(&folder, name, ports, body, state),
            "{name} differs from its specification"
        );
    }
    // A proof that cannot fail proves nothing: every block has a mutation that it detects.
    for (name, file, from, to) in [
        ("multiply_add", "al_multiply_add.v", "= x * w", "= x + w"),
        ("compare", "al_compare.v", "} < t[", "} <= t["),
        ("bipolar", "al_products.v", "~(x ^ w) & in_image", "~(x ^ w)"),
        ("counter", "al_adders.v", "(a & b) | (half & c)", "(a & b) | (a & c)"),
        ("signed_accumulator", "al_accumulator.v", "~(sum * BITS)", "-(sum * BITS)"),
        ("scale", "al_scale.v", "+ $signed(HALF)", ""),
        ("lfsr", "al_lfsr.v", "^(u & TAPS)", "~^(u & TAPS)"),
        ("sobol", "al_sobol.v", "u ^ flip", "u | flip"),
    ] {
        let path = folder.path().join("rtl").join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(from), "{file} has no {from}");
        std::fs::write(&path, text.replacen(from, to, 1)).unwrap();
        let (_, ports, body, state) = BLOCKS.into_iter().find(|block| block.0 == name).unwrap();
        assert!(!is_proven(&folder, name, ports, body, state), "{name}: {from} -> {to}");
        std::fs::write(&path, text).unwrap();
    }
}
