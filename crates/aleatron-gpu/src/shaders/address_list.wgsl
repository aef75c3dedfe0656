// Streams of a list, with a unit and a row each.
@group(0) @binding(2) var<storage, read> addresses: array<vec2<u32>>;

fn address_of(row: u32, unit: u32) -> vec2<u32> {
    return addresses[unit];
}
