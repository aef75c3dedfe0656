//! The terms that the inputs under the kernel add to the sums of signed convolutions.

use super::panel::{Panel, Region, resize};
use crate::signed::{RowStarts, TermRows, TermSlices, TermWidth, complement};
use crate::{Tier, dispatch};
use aleatron_core::{Length, Result};

/// The terms of a region and of a panel, in reused memory.
#[derive(Default)]
pub(super) struct Terms {
    /// The signs of the streams of the region; empty if none is negative.
    pub(super) negative: Vec<bool>,
    ones: Vec<u64>,
    narrow: TermsOf<i16>,
    wide: TermsOf<i64>,
}

/// Terms in integers of one width, by pixel and by row of a panel.
#[derive(Default)]
struct TermsOf<T> {
    pixels: Buffers<T>,
    rows: Buffers<T>,
}

/// The ones of streams, and masks of -1 for negative streams; no masks if none is negative.
#[derive(Default)]
struct Buffers<T> {
    ones: Vec<T>,
    masks: Vec<T>,
}

impl Terms {
    /// Complements negative streams, and stores the ones of all streams and the masks of negative
    /// ones.
    pub(super) fn read(&mut self, tier: Tier, length: Length, pixels: &mut [u64]) -> Result<()> {
        let negative = &self.negative[..];
        let streams = pixels.chunks_exact_mut(length.words()).zip(negative);
        for (stream, _) in streams.filter(|(_, is_negative)| **is_negative) {
            complement(stream, length);
        }
        resize(&mut self.ones, pixels.len() / length.words())?;
        dispatch::stream_ones(tier, pixels, length.words(), &mut self.ones);
        match TermWidth::of(length) {
            TermWidth::Narrow => self.narrow.pixels.read(&self.ones, negative, |ones| ones as i16),
            TermWidth::Wide => self.wide.pixels.read(&self.ones, negative, |ones| ones as i64),
        }
    }

    /// Returns the terms of the rows of a panel that start at `starts`, for `per_pixel` streams in
    /// each pixel.
    pub(super) fn rows<'a>(
        &'a mut self,
        length: Length,
        panel: &Panel<'_>,
        region: &Region,
        per_pixel: usize,
        starts: &'a [usize],
    ) -> Result<TermRows<'a>> {
        Ok(match TermWidth::of(length) {
            TermWidth::Narrow => {
                TermRows::Narrow(self.narrow.rows(panel, region, per_pixel, starts)?)
            }
            TermWidth::Wide => TermRows::Wide(self.wide.rows(panel, region, per_pixel, starts)?),
        })
    }
}

impl<T: Copy + Default + From<i8>> Buffers<T> {
    /// Reads terms; `negative` is empty if no stream is negative.
    fn read(&mut self, ones: &[u64], negative: &[bool], term: impl Fn(u64) -> T) -> Result<()> {
        resize(&mut self.ones, ones.len())?;
        self.ones.iter_mut().zip(ones).for_each(|(to, &ones)| *to = term(ones));
        resize(&mut self.masks, negative.len())?;
        let mask = |is_negative: bool| T::from(if is_negative { -1 } else { 0 });
        self.masks.iter_mut().zip(negative).for_each(|(to, &is_negative)| *to = mask(is_negative));
        Ok(())
    }
}

impl<T: Copy + Default> TermsOf<T> {
    fn rows<'a>(
        &'a mut self,
        panel: &Panel<'_>,
        region: &Region,
        per_pixel: usize,
        starts: &'a [usize],
    ) -> Result<TermSlices<'a, T>> {
        let (pixels, rows) = (&self.pixels, &mut self.rows);
        panel.fill(region, &pixels.ones, per_pixel, &mut rows.ones)?;
        let has_masks = !pixels.masks.is_empty();
        if has_masks {
            panel.fill(region, &pixels.masks, per_pixel, &mut rows.masks)?;
        }
        let masks = has_masks.then_some(&rows.masks[..]);
        Ok(TermSlices { ones: &rows.ones, masks, starts: RowStarts::At(starts) })
    }
}
