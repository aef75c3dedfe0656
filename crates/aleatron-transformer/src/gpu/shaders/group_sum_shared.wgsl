// The sum over 32 threads of a workgroup of GROUPS times 32, by workgroup memory. Every thread must call it.
var<workgroup> group_parts: array<f32, GROUPS * 32u>;

fn group_sum(value: f32, t: u32) -> f32 {
    workgroupBarrier();
    group_parts[t] = value;
    workgroupBarrier();
    for (var step = 16u; step > 0u; step /= 2u) {
        var other = 0.0;
        if (t % 32u < step) {
            other = group_parts[t + step];
        }
        workgroupBarrier();
        if (t % 32u < step) {
            group_parts[t] += other;
        }
        workgroupBarrier();
    }
    return group_parts[t - t % 32u];
}
