//! The source of sums over the lanes of a subgroup: unrolled, since indices of registers must be
//! constants.

use std::fmt::Write;

/// `total_sums` of `sums` numbers in each of `lanes` lanes, which are a subgroup. In every step a
/// lane sends half of its numbers to another lane and adds the received numbers to the other half,
/// so that few are exchanged.
pub(super) fn total_sums(sums: u32, lanes: u32) -> String {
    let mut s = String::from(
        "fn total_sums(sums: ptr<function, array<f32, RM>>, t: u32) {\nlet lane = t % LANES;\n",
    );
    for i in 0..sums {
        let _ = writeln!(s, "let a0_{i} = (*sums)[{i}u];");
    }
    let (mut step, mut left, mut mask) = (0, sums, lanes / 2);
    while mask > 0 {
        left /= 2;
        let _ = writeln!(s, "let high{step} = (lane & {mask}u) != 0u;");
        for i in 0..left {
            let [low, high] = [i, i + left].map(|i| format!("a{step}_{i}"));
            let _ = writeln!(
                s,
                "let a{}_{i} = select({low}, {high}, high{step}) + subgroupShuffleXor(select({high}, {low}, high{step}), {mask}u);",
                step + 1
            );
        }
        (step, mask) = (step + 1, mask / 2);
    }
    // The highest bit of a lane selects a half, the next a quarter: the lane has the sums of its
    // index.
    let _ = writeln!(s, "let at = t / LANES * RM + lane * {left}u;");
    for i in 0..left {
        let _ = writeln!(s, "totals[at + {i}u] = a{step}_{i};");
    }
    s + "}\n"
}
