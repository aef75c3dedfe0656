// Functions of integers. TYPE is i32, i64, or u32 for unsigned bytes, whose results are truncated to 8 bits afterwards.

fn int_pow_TYPE(base: TYPE, power: TYPE) -> TYPE {
    if (power < TYPE(0)) {
        if (base == TYPE(1)) { return base; }
        if (base == ~TYPE(0)) { return select(base, TYPE(1), (power & TYPE(1)) == TYPE(0)); }
        return TYPE(0);
    }
    var value = TYPE(1); var square = base; var left = power;
    while (left > TYPE(0)) {
        if ((left & TYPE(1)) == TYPE(1)) { value *= square; }
        square *= square;
        left = left >> 1u;
    }
    return value;
}

fn m_int_pow_TYPE(x: vec4<TYPE>, y: vec4<TYPE>) -> vec4<TYPE> {
    return vec4<TYPE>(int_pow_TYPE(x.x, y.x), int_pow_TYPE(x.y, y.y), int_pow_TYPE(x.z, y.z), int_pow_TYPE(x.w, y.w));
}

// Divisors that are 0 or -1 are replaced, since their results are undefined on some devices.
fn safe_divisor_TYPE(y: vec4<TYPE>) -> vec4<TYPE> {
    return select(y, vec4<TYPE>(1), (y == vec4<TYPE>(0)) | (y == ~vec4<TYPE>(0)));
}

fn rounds_down_TYPE(rest: vec4<TYPE>, y: vec4<TYPE>) -> vec4<bool> {
    return (rest != vec4<TYPE>(0)) & ((rest < vec4<TYPE>(0)) != (y < vec4<TYPE>(0)));
}

fn m_int_floor_div_TYPE(x: vec4<TYPE>, y: vec4<TYPE>) -> vec4<TYPE> {
    let by = safe_divisor_TYPE(y);
    let quotient = x / by;
    let rest = x - quotient * by;
    let value = select(quotient, quotient - vec4<TYPE>(1), rounds_down_TYPE(rest, by));
    let by_minus_one = (y < vec4<TYPE>(0)) & (y == ~vec4<TYPE>(0));
    return select(select(value, vec4<TYPE>(0) - x, by_minus_one), vec4<TYPE>(0), y == vec4<TYPE>(0));
}

fn m_int_remainder_TYPE(x: vec4<TYPE>, y: vec4<TYPE>) -> vec4<TYPE> {
    let by = safe_divisor_TYPE(y);
    let rest = x - (x / by) * by;
    let value = select(rest, rest + by, rounds_down_TYPE(rest, by));
    return select(value, vec4<TYPE>(0), y == vec4<TYPE>(0));
}

fn is_outside_TYPE(y: vec4<TYPE>) -> vec4<bool> {
    return (y < vec4<TYPE>(0)) | (y >= vec4<TYPE>(WIDTH));
}

fn m_shift_left_TYPE(x: vec4<TYPE>, y: vec4<TYPE>) -> vec4<TYPE> {
    return select(x << vec4<u32>(y & vec4<TYPE>(WIDTH - 1)), vec4<TYPE>(0), is_outside_TYPE(y));
}

fn m_shift_right_TYPE(x: vec4<TYPE>, y: vec4<TYPE>) -> vec4<TYPE> {
    let emptied = select(vec4<TYPE>(0), ~vec4<TYPE>(0), x < vec4<TYPE>(0));
    return select(x >> vec4<u32>(y & vec4<TYPE>(WIDTH - 1)), emptied, is_outside_TYPE(y));
}
