// The counting of products: ones of AND, or of XOR, whose complement the host computes for XNOR
// (bits beyond a stream's length are zero on both sides, so they never count).

override XOR: bool = false;
// Whether counts are added to existing ones, rather than replacing them.
override ADD: bool = true;
// Whether counts have a high word, `params.high` after the low one.
override WIDE: bool = false;

fn store(at: u32, count: u32) {
    if (!ADD) {
        atomicStore(&counts[at], count);
        return;
    }
    let before = atomicAdd(&counts[at], count);
    if (WIDE && before + count < before) {
        atomicAdd(&counts[params.high + at], 1u);
    }
}
