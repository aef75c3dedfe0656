// The sums of a group of threads over its lanes, by workgroup memory.
var<workgroup> lane_parts: array<f32, GROUPS * LANES>;

fn total_sums(sums: ptr<function, array<f32, RM>>, t: u32) {
    for (var j = 0u; j < RM; j++) {
        workgroupBarrier();
        lane_parts[t] = (*sums)[j];
        for (var step = LANES / 2u; step > 0u; step /= 2u) {
            workgroupBarrier();
            if (t % LANES < step) {
                lane_parts[t] += lane_parts[t + step];
            }
        }
        if (t % LANES == 0u) {
            totals[t / LANES * RM + j] = lane_parts[t];
        }
    }
}
