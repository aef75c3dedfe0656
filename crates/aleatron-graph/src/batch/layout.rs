//! The layout of the samples of a batch in a value.

/// The position of samples in a value: along one axis, which may hold other indices as well. Index
/// `(a n + s) inner + b` of that axis belongs to sample `s` of `n`, for `a` below `outer` and `b`
/// below `inner`.
///
/// ```
/// use aleatron_graph::batch::Layout;
/// // Four steps of each of n samples in the rows of a matrix with five columns, steps of a sample together.
/// let rows = Layout { axis: 0, outer: 1, inner: 4 };
/// assert_eq!(rows.shape(&[4, 5], 3), [12, 5]);
/// assert_eq!(rows.blocks(&[4, 5]), [1, 20]);
/// // The same with step 0 of all samples first.
/// assert_eq!(Layout { axis: 0, outer: 4, inner: 1 }.blocks(&[4, 5]), [4, 5]);
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    /// The axis.
    pub axis: usize,
    /// Indices before that of the sample.
    pub outer: usize,
    /// Indices behind that of the sample.
    pub inner: usize,
}

impl Layout {
    /// The layout of inputs: samples along the first axis.
    pub const LEADING: Self = Self { axis: 0, outer: 1, inner: 1 };

    /// Returns the layout along another axis.
    #[must_use]
    pub(crate) const fn moved(self, axis: usize) -> Self {
        Self { axis, ..self }
    }

    /// Returns the shape of a value of `n` samples, which has the shape `one` for one sample.
    #[must_use]
    pub fn shape(self, one: &[usize], n: usize) -> Vec<usize> {
        let mut shape = one.to_vec();
        if let Some(size) = shape.get_mut(self.axis) {
            *size = size.saturating_mul(n);
        }
        shape
    }

    /// Returns the sizes around the samples in memory, for a value that has the shape `one` for one
    /// sample: a value of n samples is a row-major array of shape `[before, n, after]`.
    #[must_use]
    pub fn blocks(self, one: &[usize]) -> [usize; 2] {
        let before: usize = one.iter().take(self.axis).product();
        let after: usize = one.iter().skip(self.axis + 1).product();
        [before * self.outer, self.inner * after]
    }

    /// Returns whether a value of this shape for one sample has the axis of the layout.
    pub(crate) fn fits(self, one: &[usize]) -> bool {
        one.get(self.axis) == Some(&(self.outer * self.inner))
    }

    /// Returns the layout of the elements of a value after a change of its shape, which does not
    /// move them. `one` is the shape before it for one sample, `to` are the shapes after it for
    /// 2 and for 3 samples.
    pub(crate) fn reshaped(self, one: &[usize], to: [&[usize]; 2]) -> Option<Self> {
        let [two, three] = to;
        if two.len() != three.len() {
            return None;
        }
        let mut axes = (0..two.len()).filter(|&axis| two[axis] != three[axis]);
        let (Some(axis), None) = (axes.next(), axes.next()) else { return None };
        let layout = self.at_axis(one, two, 2, axis)?;
        (layout.outer * layout.inner * 3 == three[axis]).then_some(layout)
    }

    /// Returns the layouts that the elements of a value of `n` samples can have after a change of
    /// its shape to `to`. With one sample, several are possible.
    pub(crate) fn candidates(self, one: &[usize], to: &[usize], n: usize) -> Vec<Self> {
        (0..to.len()).filter_map(|axis| self.at_axis(one, to, n, axis)).collect()
    }

    fn at_axis(self, one: &[usize], to: &[usize], n: usize, axis: usize) -> Option<Self> {
        let [before, after] = self.blocks(one);
        let rest: usize = to[axis + 1..].iter().product();
        if rest == 0 || after == 0 || after % rest != 0 {
            return None;
        }
        let inner = after / rest;
        let outer = to[axis] / (n * inner);
        let is_whole = outer > 0 && outer * n * inner == to[axis];
        let leading: usize = to[..axis].iter().product();
        (is_whole && leading * outer == before).then_some(Self { axis, outer, inner })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reshaped(from: Layout, one: &[usize], to: impl Fn(usize) -> Vec<usize>) -> Option<Layout> {
        from.reshaped(one, [&to(2), &to(3)])
    }

    #[test]
    fn reshape_that_keeps_samples_apart_keeps_their_layout() {
        let one = [1, 4, 6];
        let with = |outer, inner| Some(Layout { axis: 0, outer, inner });
        assert_eq!(reshaped(Layout::LEADING, &one, |n| vec![n, 24]), with(1, 1));
        assert_eq!(reshaped(Layout::LEADING, &one, |n| vec![4 * n, 6]), with(1, 4));
        assert_eq!(reshaped(Layout::LEADING, &one, |n| vec![24 * n]), with(1, 24));
        assert_eq!(
            reshaped(Layout::LEADING, &one, |n| vec![1, n, 2, 12]),
            Some(Layout { axis: 1, outer: 1, inner: 1 })
        );
        // Samples along the second axis: the first one and theirs together.
        let second = Layout { axis: 1, outer: 1, inner: 1 };
        assert_eq!(reshaped(second, &[4, 1, 6], |n| vec![4 * n, 6]), with(4, 1));
        let rows = Layout { axis: 0, outer: 4, inner: 1 };
        assert_eq!(reshaped(rows, &[4, 6], |n| vec![4, n, 6]), Some(second));
        assert_eq!(
            reshaped(rows, &[4, 6], |n| vec![2, 2 * n, 6]),
            Some(Layout { axis: 1, outer: 2, inner: 1 })
        );
    }

    #[test]
    fn reshape_that_regroups_samples_has_no_layout() {
        let one = [1, 6];
        // Two rows of all samples, six of which fit two and three samples, and the samples in the
        // last axis.
        assert_eq!(reshaped(Layout::LEADING, &one, |n| vec![2, 3 * n]), None);
        assert_eq!(reshaped(Layout::LEADING, &one, |n| vec![6, n]), None);
        assert_eq!(reshaped(Layout::LEADING, &one, |n| vec![3, n, 2]), None);
        // Two axes that depend on the number of samples.
        assert_eq!(Layout::LEADING.reshaped(&one, [&[2, 6], &[9, 2]]), None);
        assert_eq!(Layout::LEADING.reshaped(&one, [&[12], &[9, 2]]), None);
        assert_eq!(Layout::LEADING.reshaped(&[1, 0], [&[2, 0], &[3, 0]]), None);
    }

    #[test]
    fn candidates_of_one_sample_are_all_axes_that_could_hold_it() {
        let axes = |to: &[usize], n: usize| {
            Layout::LEADING
                .candidates(&[1, 6], to, n)
                .into_iter()
                .map(|l| (l.axis, l.inner))
                .collect::<Vec<_>>()
        };
        assert_eq!(axes(&[1, 1, 6], 1), [(0, 1), (1, 1), (2, 6)]);
        assert_eq!(axes(&[5, 1, 6], 5), [(0, 1)]);
        assert_eq!(axes(&[5, 6], 5), [(0, 1)]);
        assert_eq!(axes(&[30], 5), [(0, 6)]);
        assert!(axes(&[6, 5], 5).is_empty());
    }
}
