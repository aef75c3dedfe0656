// The sum over a workgroup of 256 threads through shared memory.

var<workgroup> partial: array<vec4<u32>, 256>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {
    let workgroup = id.x + id.y * size.x;
    let sample = workgroup / params.n_groups;
    let group = workgroup - sample * params.n_groups;
    if (sample >= params.n_samples) {
        return;
    }
    partial[local] = partial_counts(group, sample, local);
    for (var half = 128u; half > 0u; half >>= 1u) {
        workgroupBarrier();
        if (local < half) {
            partial[local] += partial[local + half];
        }
    }
    if (local == 0u) {
        store_rows(group, sample, partial[0]);
    }
}
