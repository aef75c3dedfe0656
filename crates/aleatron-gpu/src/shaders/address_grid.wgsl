// Streams of a matrix: the unit counts along a row.
fn address_of(row: u32, unit: u32) -> vec2<u32> {
    return vec2<u32>(params.first_unit + unit, params.first_row + row);
}
