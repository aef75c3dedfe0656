//! Non-negative least squares.

/// One measurement: the amounts of the terms, the measured value, and the reference of relative
/// errors.
pub(crate) struct Observation {
    pub(crate) amounts: Vec<f64>,
    pub(crate) value: f64,
    pub(crate) scale: f64,
}

/// Returns the coefficients, at least 0, that minimize the sum of squared relative errors, by
/// coordinate descent.
pub(crate) fn fit(observations: &[Observation], n_terms: usize) -> Vec<f64> {
    const ROUNDS: usize = 20_000;
    let mut coefficients = vec![0.0; n_terms];
    let mut residuals: Vec<f64> = observations.iter().map(|o| o.value / o.scale).collect();
    for _ in 0..ROUNDS {
        for (term, coefficient) in coefficients.iter_mut().enumerate() {
            let column = || observations.iter().map(move |o| o.amounts[term] / o.scale);
            let square: f64 = column().map(|a| a * a).sum();
            if square == 0.0 {
                continue;
            }
            let step: f64 = column().zip(&residuals).map(|(a, r)| a * r).sum::<f64>() / square;
            let next = (*coefficient + step).max(0.0);
            let change = next - *coefficient;
            *coefficient = next;
            residuals.iter_mut().zip(column()).for_each(|(r, a)| *r -= change * a);
        }
    }
    coefficients
}
