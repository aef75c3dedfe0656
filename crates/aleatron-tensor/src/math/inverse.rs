//! Functions of two arguments that libm does not have, or not for every argument. GPUs have
//! `inverse.wgsl`.

/// ln(e^x + e^y), without overflow on the way.
#[inline(always)]
pub(crate) fn logaddexp(x: f32, y: f32) -> f32 {
    let large = if x > y || x.is_nan() { x } else { y };
    if x == y || (large.is_infinite() && !x.is_nan() && !y.is_nan()) {
        return if x == y { x + std::f32::consts::LN_2 } else { large };
    }
    large + libm::log1pf((-(x - y).abs()).exp())
}

/// Returns the float next to x in the direction of y.
#[inline(always)]
pub(crate) fn nextafter(x: f32, y: f32) -> f32 {
    if x.is_nan() || y.is_nan() {
        return x + y;
    }
    if x == y {
        return y;
    }
    if x == 0.0 {
        return f32::from_bits(1).copysign(y);
    }
    if y > x { x.next_up() } else { x.next_down() }
}
