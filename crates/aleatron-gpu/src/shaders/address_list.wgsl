// Streams of a list: each brings its unit and its row.
@group(0) @binding(2) var<storage, read> addresses: array<vec2<u32>>;

fn address_of(row: u32, unit: u32) -> vec2<u32> {
    return addresses[unit];
}
