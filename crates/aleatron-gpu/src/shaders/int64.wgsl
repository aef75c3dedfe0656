// Integers of 64 bits as two words, low then high, in two's complement: not every device has them. After a mulhilo file.

fn add64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let low = a.x + b.x;
    return vec2<u32>(low, a.y + b.y + select(0u, 1u, low < a.x));
}

fn negated64(a: vec2<u32>) -> vec2<u32> {
    return add64(~a, vec2<u32>(1u, 0u));
}

fn subtract64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    return vec2<u32>(a.x - b.x, a.y - b.y - select(0u, 1u, a.x < b.x));
}

fn is_negative64(a: vec2<u32>) -> bool {
    return (a.y >> 31u) == 1u;
}

fn less64(a: vec2<u32>, b: vec2<u32>) -> bool {
    let high = bitcast<vec2<i32>>(vec2<u32>(a.y, b.y));
    return high.x < high.y || (high.x == high.y && a.x < b.x);
}

fn limited64(a: vec2<u32>, low: vec2<u32>, high: vec2<u32>) -> vec2<u32> {
    let above = select(a, low, less64(a, low));
    return select(above, high, less64(high, above));
}

// Shifts are below 64.
fn shifted_left64(a: vec2<u32>, by: u32) -> vec2<u32> {
    let places = by & 31u;
    // In two parts, since a word cannot be shifted by 32.
    let carried = (a.x >> 1u) >> (31u - places);
    let short = vec2<u32>(a.x << places, (a.y << places) | carried);
    return select(short, vec2<u32>(0u, a.x << places), by >= 32u);
}

// Rounds towards negative infinity.
fn shifted_right64(a: vec2<u32>, by: u32) -> vec2<u32> {
    let places = by & 31u;
    let high = bitcast<i32>(a.y);
    let carried = (a.y << 1u) << (31u - places);
    let short = vec2<u32>((a.x >> places) | carried, bitcast<u32>(high >> places));
    let long = vec2<u32>(bitcast<u32>(high >> places), bitcast<u32>(high >> 31u));
    return select(short, long, by >= 32u);
}

// The low 64 bits of the product.
fn multiply64(a: vec2<u32>, b: vec2<u32>) -> vec2<u32> {
    let product = mulhilo(a.x, b.x);
    return vec2<u32>(product.y, product.x + a.x * b.y + a.y * b.x);
}

// The product, shifted right, with halves rounded up.
fn scaled64(a: vec2<u32>, multiplier: vec2<u32>, shift: u32) -> vec2<u32> {
    let half = shifted_left64(vec2<u32>(1u, 0u), shift);
    let rounded = add64(multiply64(a, multiplier), vec2<u32>((half.x >> 1u) | (half.y << 31u), half.y >> 1u));
    return shifted_right64(rounded, shift);
}

// The quotient of a number that is not negative and a divisor below 2^31.
fn divided64(a: vec2<u32>, divisor: u32) -> vec2<u32> {
    let high = a.y / divisor;
    var rest = a.y - high * divisor;
    var low = 0u;
    for (var bit = 32u; bit > 0u; bit--) {
        rest = (rest << 1u) | ((a.x >> (bit - 1u)) & 1u);
        low = low << 1u;
        if (rest >= divisor) {
            rest -= divisor;
            low |= 1u;
        }
    }
    return vec2<u32>(low, high);
}
