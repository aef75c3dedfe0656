// Remainders of floats, exact: by long division of their bits.

fn rest_of(x: f32, y: f32) -> f32 {
    let sign = bitcast<u32>(x) & 0x80000000u;
    let hx = bitcast<u32>(x) & 0x7fffffffu;
    let hy = bitcast<u32>(y) & 0x7fffffffu;
    if (hy == 0u || hx >= 0x7f800000u || hy > 0x7f800000u) { return bitcast<f32>(nan_bits); }
    if (hx < hy) { return x; }
    var ex = i32(hx >> 23u); var ey = i32(hy >> 23u);
    var mx = hx & 0x007fffffu; var my = hy & 0x007fffffu;
    // Subnormal floats have no hidden bit; they are shifted until they would.
    if (ex == 0) { let z = countLeadingZeros(mx) - 8u; mx <<= z; ex = 1 - i32(z); } else { mx |= 0x00800000u; }
    if (ey == 0) { let z = countLeadingZeros(my) - 8u; my <<= z; ey = 1 - i32(z); } else { my |= 0x00800000u; }
    for (; ex > ey; ex--) {
        if (mx >= my) { mx -= my; }
        mx <<= 1u;
    }
    if (mx >= my) { mx -= my; }
    if (mx == 0u) { return bitcast<f32>(sign); }
    let z = countLeadingZeros(mx) - 8u;
    mx <<= z;
    ex -= i32(z);
    if (ex > 0) { return bitcast<f32>(sign | (u32(ex) << 23u) | (mx & 0x007fffffu)); }
    return bitcast<f32>(sign | (mx >> u32(1 - ex)));
}

fn m_remainder(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
    let rest = vec4<f32>(rest_of(x.x, y.x), rest_of(x.y, y.y), rest_of(x.z, y.z), rest_of(x.w, y.w));
    let is_zero = magnitude_bits(rest) == vec4<u32>(0u);
    let value = select(rest, rest + y, !is_zero & (is_negative(rest) != is_negative(y)) & !is_nan(rest));
    return keep_nans(x, y, select(value, copy_sign(vec4<f32>(0.0), y), magnitude_bits(value) == vec4<u32>(0u)));
}

fn m_floor_div(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
    let zero = vec4<u32>(0u);
    let differ = is_negative(x) != is_negative(y);
    let sign = select(vec4<f32>(1.0), vec4<f32>(-1.0), differ);
    let rounded = round(divide(x - m_remainder(x, y), y));
    var value = select(rounded, vec4<f32>(0.0), magnitude_bits(rounded) == zero);
    value = select(value, copy_sign(infinity(), sign), is_inf(x) | (magnitude_bits(y) == zero));
    // Finite numbers by infinity are a zero of their sign, as the array API standard says.
    value = select(value, copy_sign(vec4<f32>(0.0), sign), (magnitude_bits(x) == zero) | (is_inf(y) & !is_inf(x)));
    let is_undefined = (is_inf(x) & is_inf(y)) | ((magnitude_bits(x) | magnitude_bits(y)) == zero);
    return keep_nans(x, y, select(value, nan(), is_undefined));
}
