// Reads a buffer at the speed of memory, and optionally writes it elsewhere: the reference
// bandwidth for other kernels.

override WRITE: bool = false;
const THREADS = 256u;

struct Params {
    n: u32,
}
var<immediate> params: Params;

@group(0) @binding(0) var<storage, read> source: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> target_: array<vec4<u32>>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let first = (id.x + id.y * size.x) * (8u * THREADS) + local;
    if (WRITE) {
        for (var i = 0u; i < 8u; i++) {
            let k = first + i * THREADS;
            if (k < params.n) {
                target_[k] = source[k];
            }
        }
        return;
    }
    if (first + 7u * THREADS >= params.n) {
        return;
    }
    let a = (source[first] ^ source[first + THREADS]) ^ (source[first + 2u * THREADS] ^ source[first + 3u * THREADS]);
    let b = (source[first + 4u * THREADS] ^ source[first + 5u * THREADS])
        ^ (source[first + 6u * THREADS] ^ source[first + 7u * THREADS]);
    let c = a ^ b;
    // Never true for the probed bytes, which the compiler cannot know.
    if ((c.x ^ c.y ^ c.z ^ c.w) == 0x9E3779B9u) {
        target_[0] = c;
    }
}
