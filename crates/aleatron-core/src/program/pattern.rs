//! Constants that belong to the elements of a slot.

use crate::error::{Error, Quantity, Result};

/// One constant for each element of a slot. The constants repeat after a period, and runs of equal
/// constants are stored once.
///
/// ```
/// use aleatron_core::program::Pattern;
/// // Two output channels of three positions each.
/// let biases = Pattern::per_row(&[5, -7], 3)?;
/// assert_eq!((biases.period(), *biases.get(2), *biases.get(3), *biases.get(6)), (6, 5, -7, 5));
/// # Ok::<(), aleatron_core::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct Pattern<T> {
    period: usize,
    /// The number of consecutive elements with one constant, and the index of that constant in
    /// `table`.
    runs: Vec<(usize, u32)>,
    table: Vec<T>,
}

impl<T> Pattern<T> {
    /// Creates the pattern of one constant for all elements.
    #[must_use]
    pub fn uniform(value: T) -> Self {
        Self { period: 1, runs: vec![(1, 0)], table: vec![value] }
    }

    /// Creates the pattern of rows of `elements` elements, each row with its own constant.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for no rows or rows without elements, [`Error::TooLarge`] above 2^32
    /// rows.
    pub fn per_row(values: &[T], elements: usize) -> Result<Self>
    where
        T: Clone,
    {
        if values.is_empty() || elements == 0 {
            return Err(Error::Zero(Quantity::Neurons));
        }
        let keys: Vec<u32> = (0..values.len()).map(key).collect::<Result<_>>()?;
        let period = values.len().saturating_mul(elements);
        let runs = keys.into_iter().map(|key| (elements, key)).collect();
        Ok(Self { period, runs, table: values.to_vec() })
    }

    /// Creates the pattern in which element `k` has the constant `table[keys[k]]`.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for no elements, [`Error::TooLarge`] for a key past the end of the
    /// table.
    pub fn from_keys(keys: &[u32], table: Vec<T>) -> Result<Self> {
        if keys.is_empty() {
            return Err(Error::Zero(Quantity::Value));
        }
        let mut runs: Vec<(usize, u32)> = Vec::new();
        for &key in keys {
            if key as usize >= table.len() {
                let (actual, limit) = (key.into(), table.len() as u128);
                return Err(Error::TooLarge { what: Quantity::Value, actual, limit });
            }
            match runs.last_mut() {
                Some((len, last)) if *last == key => *len += 1,
                _ => runs.push((1, key)),
            }
        }
        let (period, runs) =
            if let [(_, key)] = runs[..] { (1, vec![(1, key)]) } else { (keys.len(), runs) };
        Ok(Self { period, runs, table })
    }

    /// Creates the pattern of one constant per element.
    ///
    /// # Errors
    /// Returns [`Error::Zero`] for no elements, [`Error::TooLarge`] above 2^32 different
    /// neighbours.
    pub fn from_elements(elements: &[T]) -> Result<Self>
    where
        T: Clone + PartialEq,
    {
        let mut table: Vec<T> = Vec::new();
        let mut keys = Vec::with_capacity(elements.len());
        for element in elements {
            if table.last() != Some(element) {
                table.push(element.clone());
            }
            keys.push(key(table.len() - 1)?);
        }
        Self::from_keys(&keys, table)
    }

    /// Returns the number of elements after which the constants repeat.
    #[must_use]
    pub const fn period(&self) -> usize {
        self.period
    }

    /// Returns the constant of an element.
    #[must_use]
    pub fn get(&self, element: usize) -> &T {
        let mut left = element % self.period;
        for &(len, key) in &self.runs {
            if left < len {
                return &self.table[key as usize];
            }
            left -= len;
        }
        // Runs add up to the period, which is at least 1.
        &self.table[self.runs[0].1 as usize]
    }

    /// Returns the constant of all elements if they share one.
    #[must_use]
    pub fn as_uniform(&self) -> Option<&T> {
        match self.runs[..] {
            [(_, key)] => Some(&self.table[key as usize]),
            _ => None,
        }
    }

    /// Returns the runs of one period: the number of consecutive elements, and their constant.
    pub fn runs(&self) -> impl Iterator<Item = (usize, &T)> {
        self.runs.iter().map(|&(len, key)| (len, &self.table[key as usize]))
    }

    /// Returns the different constants.
    #[must_use]
    pub fn table(&self) -> &[T] {
        &self.table
    }

    /// Returns the index into [`Self::table`] of each element of one period.
    pub fn keys(&self) -> impl Iterator<Item = u32> {
        self.runs.iter().flat_map(|&(len, key)| std::iter::repeat_n(key, len))
    }

    /// Converts every constant with `convert`.
    ///
    /// # Errors
    /// Returns the first error of `convert`.
    pub fn try_map<U>(&self, convert: impl FnMut(&T) -> Result<U>) -> Result<Pattern<U>> {
        let table = self.table.iter().map(convert).collect::<Result<_>>()?;
        Ok(Pattern { period: self.period, runs: self.runs.clone(), table })
    }

    /// Calls `f` with the constant and the elements of each run of `values`, which begin with
    /// element 0 of a sample.
    pub fn for_each_run<V>(&self, values: &mut [V], mut f: impl FnMut(&T, &mut [V])) {
        if let Some(constant) = self.as_uniform() {
            return f(constant, values);
        }
        for chunk in values.chunks_mut(self.period) {
            let mut rest = chunk;
            for &(len, key) in &self.runs {
                let (run, after) = rest.split_at_mut(len.min(rest.len()));
                f(&self.table[key as usize], run);
                rest = after;
            }
        }
    }
}

fn key(index: usize) -> Result<u32> {
    let (actual, limit) = (index as u128, u32::MAX.into());
    u32::try_from(index).map_err(|_| Error::TooLarge { what: Quantity::Value, actual, limit })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn pattern_from_elements_repeats_after_its_period() {
        let pattern = Pattern::from_elements(&[4, 4, 9, 4]).unwrap();
        assert_eq!(
            (0..9).map(|k| *pattern.get(k)).collect::<Vec<_>>(),
            [4, 4, 9, 4, 4, 4, 9, 4, 4]
        );
        assert_eq!(
            pattern.runs().map(|(len, value)| (len, *value)).collect::<Vec<_>>(),
            [(2, 4), (1, 9), (1, 4)]
        );
        let mut values = vec![0; 8];
        pattern.for_each_run(&mut values, |constant, run| run.fill(*constant));
        assert_eq!(values, [4, 4, 9, 4, 4, 4, 9, 4]);
    }

    #[test]
    fn pattern_of_equal_elements_is_uniform() {
        let pattern = Pattern::from_elements(&[3; 5]).unwrap();
        assert_eq!((pattern.as_uniform(), pattern.period()), (Some(&3), 1));
        assert_eq!(Pattern::per_row(&[1, 2], 1).unwrap().as_uniform(), None);
    }

    #[test]
    fn pattern_without_elements_or_with_key_out_of_range_is_rejected() {
        assert!(Pattern::<i64>::from_elements(&[]).is_err());
        assert!(Pattern::<i64>::per_row(&[], 3).is_err());
        assert!(Pattern::per_row(&[1], 0).is_err());
        assert!(Pattern::from_keys(&[0, 2], vec![1, 2]).is_err());
    }
}
