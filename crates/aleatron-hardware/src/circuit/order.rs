//! The orders in which the elements of a slot arrive.

/// Returns the order of elements that arrive in their own order.
pub(crate) fn identity(n: usize) -> Vec<u32> {
    (0..n as u32).collect()
}

pub(crate) fn is_identity(order: &[u32]) -> bool {
    order.iter().enumerate().all(|(k, &element)| k == element as usize)
}

/// Returns the order of images that arrive pixel by pixel, with elements numbered by channel and
/// pixel.
pub(crate) fn by_pixel(channels: usize, pixels: usize) -> Vec<u32> {
    (0..pixels)
        .flat_map(|pixel| (0..channels).map(move |channel| (channel * pixels + pixel) as u32))
        .collect()
}

/// Returns the position of arrival of each element.
pub(crate) fn positions(order: &[u32]) -> Vec<u32> {
    let mut positions = vec![0; order.len()];
    for (k, &element) in order.iter().enumerate() {
        positions[element as usize] = k as u32;
    }
    positions
}

/// Returns the least period of a list, which divides its length.
pub(crate) fn one_period<T: PartialEq + Clone>(items: &[T]) -> Vec<T> {
    let n = items.len();
    let is_period = |period: &usize| {
        n.is_multiple_of(*period) && (*period..n).all(|k| items[k] == items[k - period])
    };
    let period = (1..=n).find(is_period).unwrap_or(n);
    items[..period].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_pixel_orders_images_pixel_by_pixel() {
        assert_eq!(by_pixel(2, 3), [0, 3, 1, 4, 2, 5]);
        assert_eq!(positions(&by_pixel(2, 3)), [0, 2, 4, 1, 3, 5]);
        assert!(is_identity(&by_pixel(1, 4)) && !is_identity(&by_pixel(2, 2)));
    }

    #[test]
    fn period_divides_the_length() {
        assert_eq!(one_period(&[1, 2, 1, 2]), [1, 2]);
        assert_eq!(one_period(&[1, 2, 1]), [1, 2, 1]);
        assert_eq!(one_period(&[7; 6]), [7]);
    }
}
