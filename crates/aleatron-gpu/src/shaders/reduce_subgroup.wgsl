// The sum over a workgroup of 256 threads, within subgroups first. However few lanes those have, there are no more than threads.

var<workgroup> partial: array<vec4<u32>, 256>;

@compute @workgroup_size(256)
fn main(
    @builtin(workgroup_id) id: vec3<u32>,
    @builtin(num_workgroups) size: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
    @builtin(subgroup_id) subgroup: u32,
    @builtin(num_subgroups) n_subgroups: u32,
    @builtin(subgroup_invocation_id) lane: u32,
) {
    let workgroup = id.x + id.y * size.x;
    let sample = workgroup / params.n_groups;
    let group = workgroup - sample * params.n_groups;
    if (sample >= params.n_samples) {
        return;
    }
    let sum = subgroupAdd(partial_counts(group, sample, local));
    if (lane == 0u) {
        partial[subgroup] = sum;
    }
    workgroupBarrier();
    if (local == 0u) {
        var total = partial[0];
        for (var i = 1u; i < n_subgroups; i++) {
            total += partial[i];
        }
        store_rows(group, sample, total);
    }
}
