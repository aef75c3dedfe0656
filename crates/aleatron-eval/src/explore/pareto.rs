//! The Pareto set of designs.

use super::design::{Design, DesignCost};

/// Returns whether costs are no higher in any respect.
pub(super) fn is_no_higher(a: &DesignCost, b: &DesignCost) -> bool {
    a.latency <= b.latency && a.area <= b.area && a.energy <= b.energy
}

/// Returns whether a design is at least as good as another in every respect and better in one.
fn dominates(a: &Design, b: &Design) -> bool {
    let is_better = a.score > b.score
        || a.cost.latency < b.cost.latency
        || a.cost.area < b.cost.area
        || a.cost.energy < b.cost.energy;
    a.score >= b.score && is_no_higher(&a.cost, &b.cost) && is_better
}

/// Marks the designs that no other one dominates.
pub(super) fn mark(designs: &mut [Design]) {
    let is_optimal: Vec<bool> = designs
        .iter()
        .map(|design| !designs.iter().any(|other| dominates(other, design)))
        .collect();
    for (design, is_optimal) in designs.iter_mut().zip(is_optimal) {
        design.is_optimal = is_optimal;
    }
}

#[cfg(test)]
mod tests {
    use super::super::design::{EarlyTermination, Lanes, StreamDesign};
    use super::*;
    use aleatron_core::generator::{GeneratorName, Sharing, WidthChoice};

    fn design(score: f64, latency: u64, area: f64, energy: f64) -> Design {
        let streams = StreamDesign {
            network: 0,
            generator: GeneratorName::SOBOL,
            sharing: Sharing::OneForAll,
            width: WidthChoice::Auto,
            lengths: vec![8],
            early: EarlyTermination::Disabled,
        };
        let cost = DesignCost { cycles: latency, latency, area, energy };
        Design { streams, lanes: Lanes::All, score, worst_score: score, cost, is_optimal: false }
    }

    #[test]
    fn mark_keeps_designs_that_are_best_in_one_respect() {
        let mut designs = [
            design(0.9, 10, 5.0, 5.0),
            design(0.9, 10, 5.0, 6.0),
            design(0.8, 10, 5.0, 5.0),
            design(0.8, 9, 7.0, 7.0),
            design(0.95, 20, 9.0, 9.0),
            design(0.7, 9, 7.0, 6.0),
        ];
        mark(&mut designs);
        assert_eq!(designs.map(|design| design.is_optimal), [true, false, false, true, true, true]);
    }

    #[test]
    fn mark_keeps_equal_designs() {
        let mut designs = [design(0.9, 10, 5.0, 5.0), design(0.9, 10, 5.0, 5.0)];
        mark(&mut designs);
        assert!(designs.iter().all(|design| design.is_optimal));
    }
}
