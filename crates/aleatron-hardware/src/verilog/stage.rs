//! The Verilog of the stages between layers.

use super::Module;
use super::text::{concatenation, masked, range, signed, table, unsigned, unused};
use crate::ClockGating;
use crate::circuit::{InputInterval, Link, Operation, Window, Word, bits, signed_bits};
use aleatron_core::Polarity;
use std::fmt::Write as _;

/// Returns a line buffer with the signals `ready`, `done` and `words`.
pub(super) fn window(
    window: &Window,
    word: u32,
    every_channel: u32,
    data: &str,
    padding: &str,
    gating: ClockGating,
) -> String {
    let [rows, columns] = window.reach();
    let [[top, bottom], [left, right]] = window.padding;
    format!(
        "    wire {} words;\n    al_window #(\n        .WORD({word}), .CHANNELS({}), .ROWS({}), .COLUMNS({}), .TOP({top}), .BOTTOM({bottom}), \
         .LEFT({left}), .RIGHT({right}),\n        .REACH_ROWS({rows}), .REACH_COLUMNS({columns}), .STRIDE_ROWS({}), .STRIDE_COLUMNS({}), \
         .EVERY_CHANNEL({every_channel}),\n        .DEPTH({depth}), .PADDING({padding}), .GATED({})\n    ) window (\n        .clk(clk), .rst(rst), \
         .in_data({data}), .in_valid(in_valid), .in_ready(in_ready), .ready(ready), .done(done), .words(words)\n    );\n",
        range(window.depth() * word as usize),
        window.channels,
        window.size[0],
        window.size[1],
        window.stride[0],
        window.stride[1],
        u32::from(gating == ClockGating::Cells),
        depth = window.depth(),
    )
}

/// A stage between layers.
pub(crate) struct StageText<'a> {
    pub(crate) module: String,
    pub(crate) inputs: Vec<&'a Link>,
    pub(crate) output: &'a Link,
    pub(crate) operation: &'a Operation,
    pub(crate) gating: ClockGating,
}

impl StageText<'_> {
    /// Returns the modules: the arithmetic of an element, and the stage around it.
    pub(crate) fn modules(&self) -> Vec<Module> {
        match self.operation {
            Operation::Layer(_) => Vec::new(),
            Operation::Requantize { .. } | Operation::Offset { .. } | Operation::Clip { .. } => {
                vec![self.function(), self.elementwise()]
            }
            Operation::Add { .. } => vec![self.function(), self.joined()],
            Operation::Pool { window, divisor } => vec![self.pool(window, *divisor)],
            Operation::Reorder { addresses } => vec![self.reorder(addresses)],
        }
    }

    /// Returns the classes of arriving elements, for operations that have them.
    pub(crate) fn classes(&self) -> &[u32] {
        match self.operation {
            Operation::Requantize { classes, .. }
            | Operation::Offset { classes, .. }
            | Operation::Clip { classes, .. }
            | Operation::Add { classes, .. } => classes,
            _ => &[0],
        }
    }

    pub(crate) fn index_bits(&self) -> u32 {
        bits(self.classes().len())
    }

    fn input_bits(&self, k: usize) -> u32 {
        self.inputs.get(k).map_or(1, |link| link.word.bits())
    }

    /// Returns the constants of arriving elements as a function of their index.
    fn constants(&self, name: &str, bits: u32, of_class: impl Fn(usize) -> String) -> String {
        let entries: Vec<String> =
            self.classes().iter().map(|&class| of_class(class as usize)).collect();
        table(name, &range(bits as usize), self.index_bits(), &entries)
    }

    fn ports(&self, name: &str, comment: &str) -> String {
        let mut text = format!(
            "// {comment}\n`default_nettype none\n\nmodule {name} (\n    input  wire clk,\n    input  wire rst,\n"
        );
        let names = if self.inputs.len() == 2 { &["a", "b"][..] } else { &["in"] };
        for (k, input) in names.iter().enumerate() {
            let _ = write!(
                text,
                "    input  wire {} {input}_data,\n    input  wire {input}_valid,\n    output wire {input}_ready,\n",
                range(self.input_bits(k) as usize)
            );
        }
        let _ = write!(
            text,
            "    output wire {} out_data,\n    output wire out_valid,\n    input  wire out_ready\n);\n",
            range(self.output.word.bits() as usize)
        );
        text
    }

    fn elementwise(&self) -> Module {
        let (module, index, period) = (&self.module, self.index_bits(), self.classes().len());
        let bits = self.output.word.bits();
        let mut text =
            self.ports(module, &format!("{} of a stream of integers.", self.operation.name()));
        let _ = write!(
            text,
            "    wire {} index;\n    wire {} result;\n    al_index #(.PERIOD({period}), .INDEX({index})) counter (.clk(clk), .rst(rst), \
             .step(in_valid && in_ready), .index(index));\n    {module}_function f (.index(index), .value(in_data), .result(result));\n    \
             al_register #(.WIDTH({bits})) register (\n        .clk(clk), .rst(rst), .in_data(result), .in_valid(in_valid), \
             .in_ready(in_ready), .out_data(out_data),\n        .out_valid(out_valid), .out_ready(out_ready)\n    );\nendmodule\n\n\
             `default_nettype wire\n",
            range(index as usize),
            range(bits as usize),
        );
        Module { name: module.clone(), text }
    }

    fn joined(&self) -> Module {
        let (module, index, period) = (&self.module, self.index_bits(), self.classes().len());
        let (bits, depth) = (self.output.word.bits(), self.output.elements);
        let mut text = self.ports(module, "Adds two streams of integers. Each has a memory for one sample, so that neither waits for the other.");
        for (k, name) in ["a", "b"].into_iter().enumerate() {
            let width = self.input_bits(k);
            let _ = write!(
                text,
                "    wire {} {name};\n    wire {name}_there;\n    al_fifo #(.WIDTH({width}), .DEPTH({depth})) fifo_{name} (\n        \
                 .clk(clk), .rst(rst), .in_data({name}_data), .in_valid({name}_valid), .in_ready({name}_ready), .out_data({name}),\n        \
                 .out_valid({name}_there), .out_ready(take)\n    );\n",
                range(width as usize)
            );
        }
        let _ = write!(
            text,
            "    wire both = a_there && b_there;\n    wire free;\n    wire take = both && free;\n    wire {} index;\n    wire {} result;\n    \
             al_index #(.PERIOD({period}), .INDEX({index})) counter (.clk(clk), .rst(rst), .step(take), .index(index));\n    \
             {module}_function f (.index(index), .a(a), .b(b), .result(result));\n    al_register #(.WIDTH({bits})) register (\n        \
             .clk(clk), .rst(rst), .in_data(result), .in_valid(both), .in_ready(free), .out_data(out_data),\n        .out_valid(out_valid), \
             .out_ready(out_ready)\n    );\nendmodule\n\n`default_nettype wire\n",
            range(index as usize),
            range(bits as usize),
        );
        // A signal is declared before it is used.
        let text = text.replacen("    wire a_there;", "    wire take, free;\n    wire a_there;", 1);
        let text = text.replacen(
            "    wire free;\n    wire take = both && free;",
            "    assign take = both && free;",
            1,
        );
        Module { name: module.clone(), text }
    }

    /// Returns the module of the arithmetic of one element.
    fn function(&self) -> Module {
        let name = format!("{}_function", self.module);
        let (index, bits) = (self.index_bits(), self.output.word.bits());
        let values = match self.inputs.len() {
            2 => vec![("a", self.input_bits(0)), ("b", self.input_bits(1))],
            _ => vec![("value", self.input_bits(0))],
        };
        let mut text = format!(
            "// The arithmetic of one element; `index` is its index modulo the period of the constants.\n`default_nettype none\n\nmodule \
             {name} (\n    /* verilator lint_off UNUSEDSIGNAL */\n    input  wire {} index,\n    /* verilator lint_on UNUSEDSIGNAL */\n",
            range(index as usize)
        );
        for (value, width) in &values {
            let _ = writeln!(text, "    input  wire {} {value},", range(*width as usize));
        }
        let _ = write!(text, "    output wire {} result\n);\n", range(bits as usize));
        match self.operation {
            Operation::Requantize { multipliers, shift, comparator, polarity, .. } => {
                self.requantize(&mut text, multipliers, *shift, *comparator, *polarity);
            }
            Operation::Offset { negated, terms, .. } => {
                // Wide enough for both operands as well.
                let widest = terms
                    .iter()
                    .map(|&term| signed_bits(term.into(), term.into()))
                    .max()
                    .unwrap_or(1);
                let wide = bits.max(widest).max(self.input_bits(0) + 1);
                let term = |class: usize| unsigned(masked(terms[class].into(), wide), wide);
                text.push_str(&self.constants("term", wide, term));
                let sign = if *negated { "-" } else { "" };
                let _ = writeln!(
                    text,
                    "    wire {range} wide = {{{{{}{{value[{}]}}}}, value}};\n    /* verilator lint_off UNUSEDSIGNAL */\n    wire {range} sum = \
                     {sign}wide + term(index);\n    /* verilator lint_on UNUSEDSIGNAL */\n    assign result = sum[{}:0];",
                    wide - self.input_bits(0),
                    self.input_bits(0) - 1,
                    bits - 1,
                    range = range(wide as usize),
                );
            }
            Operation::Clip { bounds, .. } => self.clip(&mut text, bounds),
            Operation::Add { subtracts, multipliers, shifts, .. } => {
                self.add(&mut text, *subtracts, multipliers, *shifts);
            }
            _ => {}
        }
        text.push_str("endmodule\n\n`default_nettype wire\n");
        Module { name, text }
    }

    fn requantize(
        &self,
        text: &mut String,
        multipliers: &[u128],
        shift: u32,
        comparator: u32,
        polarity: Polarity,
    ) {
        let Some(Word::Integer { low, high }) = self.inputs.first().map(|link| link.word) else {
            return;
        };
        let (a, m) = (self.input_bits(0), width_of(multipliers.iter().copied()));
        let (product, level) = scale_bits(low.into(), high.into(), multipliers, shift, a, m);
        let is_signed =
            matches!(self.output.word, Word::Threshold { sign: InputInterval::Signed, .. });
        // Saturation adds the threshold of 0 of bipolar streams, or negates, before it limits.
        let [least, greatest] = scaled_ends(low.into(), high.into(), multipliers, shift);
        let middle = if polarity == Polarity::Bipolar { (1_i128 << comparator) >> 1 } else { 0 };
        let negated = if is_signed { -least } else { 0 };
        let level =
            level.max(signed_bits(least, (greatest + middle).max(negated))).max(comparator + 3);
        let product = product.max(level);
        text.push_str(&self.constants("multiplier", m, |class| unsigned(multipliers[class], m)));
        let _ = writeln!(
            text,
            "    wire {} level;\n    al_scale #(.A({a}), .M({m}), .SHIFT({shift}), .P({product}), .R({level})) scale (.value(value), \
             .multiplier(multiplier(index)), .result(level));\n    al_saturate #(.L({level}), .V({comparator}), .SIGNED({}), .MIDDLE({}), \
             .WORD({})) saturate (.level(level), .word(result));",
            range(level as usize),
            u32::from(is_signed),
            u32::from(polarity == Polarity::Bipolar),
            self.output.word.bits(),
        );
    }

    fn clip(&self, text: &mut String, bounds: &[[i64; 2]]) {
        let (a, bits) = (self.input_bits(0), self.output.word.bits());
        // Bounds beyond all values limit nothing, and need no wider words.
        let Some(Word::Integer { low: least, high: most }) =
            self.inputs.first().map(|link| link.word)
        else {
            return;
        };
        let limited_bound = |bound: i64| match bound {
            i64::MIN => least,
            i64::MAX => most,
            bound => bound,
        };
        let all = bounds.iter().flatten().map(|&bound| limited_bound(bound));
        let wide = all
            .map(|bound| signed_bits(bound.into(), bound.into()))
            .max()
            .unwrap_or(1)
            .max(a)
            .max(bits);
        for (name, k) in [("low", 0), ("high", 1)] {
            let bound =
                |class: usize| unsigned(masked(limited_bound(bounds[class][k]).into(), wide), wide);
            text.push_str(&self.constants(name, wide, bound));
        }
        let extended = match wide - a {
            0 => "value".to_owned(),
            more => format!("{{{{{more}{{value[{}]}}}}, value}}", a - 1),
        };
        let _ = writeln!(
            text,
            "    wire signed {range} wide = {extended};\n    wire signed {range} least = low(index);\n    wire signed {range} most = \
             high(index);\n    wire signed {range} raised = wide < least ? least : wide;\n    /* verilator lint_off UNUSEDSIGNAL */\n    wire \
             signed {range} limited = raised > most ? most : raised;\n    /* verilator lint_on UNUSEDSIGNAL */\n    assign result = \
             limited[{}:0];",
            bits - 1,
            range = range(wide as usize),
        );
    }

    fn add(&self, text: &mut String, subtracts: bool, multipliers: &[[u128; 2]], shifts: [u32; 2]) {
        let bits = self.output.word.bits();
        let mut wide = bits;
        let mut scales = String::new();
        let mut widths = [0; 2];
        for (k, name) in ["a", "b"].into_iter().enumerate() {
            let Some(Word::Integer { low, high }) = self.inputs.get(k).map(|link| link.word) else {
                return;
            };
            let own: Vec<u128> = multipliers.iter().map(|pair| pair[k]).collect();
            let (a, m) = (self.input_bits(k), width_of(own.iter().copied()));
            let (product, level) = scale_bits(low.into(), high.into(), &own, shifts[k], a, m);
            let product = product.max(level);
            widths[k] = level;
            wide = wide.max(level + 1);
            text.push_str(
                &self.constants(&format!("multiplier_{name}"), m, |class| unsigned(own[class], m)),
            );
            let _ = writeln!(
                scales,
                "    wire {} scaled_{name};\n    al_scale #(.A({a}), .M({m}), .SHIFT({}), .P({product}), .R({level})) scale_{name} \
                 (.value({name}), .multiplier(multiplier_{name}(index)), .result(scaled_{name}));",
                range(level as usize),
                shifts[k],
            );
        }
        text.push_str(&scales);
        let extended = |name: &str, width: u32| {
            format!("{{{{{}{{scaled_{name}[{}]}}}}, scaled_{name}}}", wide - width, width - 1)
        };
        let _ = writeln!(
            text,
            "    /* verilator lint_off UNUSEDSIGNAL */\n    wire {} sum = {} {} {};\n    /* verilator lint_on UNUSEDSIGNAL */\n    assign \
             result = sum[{}:0];",
            range(wide as usize),
            extended("a", widths[0]),
            if subtracts { "-" } else { "+" },
            extended("b", widths[1]),
            bits - 1,
        );
    }

    fn pool(&self, shape: &Window, divisor: Option<usize>) -> Module {
        let (module, a, bits) = (&self.module, self.input_bits(0), self.output.word.bits());
        let Some(Word::Integer { low, high }) = self.inputs.first().map(|link| link.word) else {
            return Module { name: module.clone(), text: String::new() };
        };
        let n = shape.kernel[0] * shape.kernel[1];
        // A maximum ignores padding: padding has the least value.
        let padding = signed(if divisor.is_some() { 0 } else { low.into() }, a);
        let mut text = self.ports(module, "Reduces the windows of an image to one value each.");
        text.push_str("    wire ready, done;\n");
        text.push_str(&window(shape, a, 1, "in_data", &padding, self.gating));
        let taps: Vec<String> = (0..n)
            .map(|tap| {
                // The word of the channel that arrived last, at each tap.
                let word =
                    shape.word(shape.channels - 1, tap / shape.kernel[1], tap % shape.kernel[1]);
                format!("words[{}+:{a}]", word * a as usize)
            })
            .collect();
        let most = i128::from(low).unsigned_abs().max(i128::from(high).unsigned_abs()) as i128 + 1;
        let divisor_value = divisor.unwrap_or(1) as i128;
        let sum_bits =
            signed_bits(0, 4 * most * divisor_value.max(n as i128) + 2 * divisor_value).max(a + 2);
        let _ = write!(
            text,
            "    wire {} values = {};\n    wire {} result;\n    al_pool #(\n        .N({n}), .A({a}), .AVERAGE({}), .S({sum_bits}), \
             .DIVISOR({}), .BIAS({})\n    ) pool (.values(values), .result(result));\n",
            range(n * a as usize),
            concatenation(&taps),
            range(a as usize),
            u32::from(divisor.is_some()),
            unsigned(divisor_value as u128, sum_bits),
            unsigned(most as u128, sum_bits),
        );
        // Values outside the windows of a stride are in the buffer, but no tap reads them.
        text.push_str(&unused(&["words"]));
        let narrowed = if bits < a {
            text.push_str(&unused(&["result"]).replace("unused", "unused_result"));
            format!("result[{}:0]", bits - 1)
        } else if bits > a {
            format!("{{{{{}{{result[{}]}}}}, result}}", bits - a, a - 1)
        } else {
            "result".to_owned()
        };
        let _ = write!(
            text,
            "    wire free;\n    assign done = ready && free;\n    al_register #(.WIDTH({bits})) register (\n        .clk(clk), .rst(rst), \
             .in_data({narrowed}), .in_valid(ready), .in_ready(free), .out_data(out_data), .out_valid(out_valid),\n        \
             .out_ready(out_ready)\n    );\nendmodule\n\n`default_nettype wire\n"
        );
        Module { name: module.clone(), text }
    }

    fn reorder(&self, addresses: &[u32]) -> Module {
        let (module, width) = (&self.module, self.output.word.bits());
        let (n, m) = (self.inputs.first().map_or(1, |link| link.elements), addresses.len());
        let (address, index) = (bits(n), bits(m));
        let entries: Vec<String> = addresses.iter().map(|&k| unsigned(k.into(), address)).collect();
        let mut text = self.ports(module, "Stores a sample and reads it in another order.");
        let _ = write!(
            text,
            "{}    wire {} index;\n    al_reorder #(.WIDTH({width}), .N({n}), .M({m}), .ADDRESS({address}), .INDEX({index})) memory (\n        \
             .clk(clk), .rst(rst), .in_data(in_data), .in_valid(in_valid), .in_ready(in_ready), .index(index), .address(address_of(index)),\n        \
             .out_data(out_data), .out_valid(out_valid), .out_ready(out_ready)\n    );\nendmodule\n\n`default_nettype wire\n",
            table("address_of", &range(address as usize), index, &entries),
            range(index as usize),
        );
        Module { name: module.clone(), text }
    }
}

/// Returns the bits of the largest of some multipliers, at least one.
pub(crate) fn width_of(multipliers: impl Iterator<Item = u128>) -> u32 {
    multipliers.max().and_then(u128::checked_ilog2).map_or(1, |log| log + 1)
}

/// Returns the least and the greatest product with the rounding constant.
fn product_ends(low: i128, high: i128, multipliers: &[u128], shift: u32) -> [i128; 2] {
    let most = multipliers.iter().copied().max().unwrap_or(0) as i128;
    [(low * most).min(0), (high * most).max(0) + ((1_i128 << shift) >> 1)]
}

/// Returns the least and the greatest shifted product.
fn scaled_ends(low: i128, high: i128, multipliers: &[u128], shift: u32) -> [i128; 2] {
    product_ends(low, high, multipliers, shift).map(|end| end >> shift)
}

/// Returns the bits of the product with the rounding constant, and those of the shifted product.
pub(crate) fn scale_bits(
    low: i128,
    high: i128,
    multipliers: &[u128],
    shift: u32,
    a: u32,
    m: u32,
) -> (u32, u32) {
    let [least, greatest] = product_ends(low, high, multipliers, shift);
    let product = signed_bits(least, greatest).max(a + 1).max(m + 1);
    let [least, greatest] = scaled_ends(low, high, multipliers, shift);
    (product, signed_bits(least, greatest))
}
