// The positions of the taps of a convolution's kernel.
#pragma once
#include "device.cuh"

// The geometry of a convolution: rows first, then columns. Positions of the padded image are below
// 2^31.
struct Convolution {
    u32 size[2];
    u32 kernel[2];
    u32 stride[2];
    // Padding before the image.
    u32 padding[2];
    u32 dilation[2];
    // The number of positions of the kernel along a row, and of all.
    u32 columns;
    u32 n_positions;
};

// The input under a tap of the kernel at a position, counted from channel `first_channel`; false in
// the padding.
DEVICE bool input_under(const Convolution& c, u32 first_channel, u32 position, u32 tap, u32* input) {
    const u32 row = position / c.columns, column = position - row * c.columns;
    const u32 tap_row_all = tap / c.kernel[1], tap_column = tap - tap_row_all * c.kernel[1];
    const u32 channel = tap_row_all / c.kernel[0], tap_row = tap_row_all - channel * c.kernel[0];
    // Below 0 in the padding before the image, which as unsigned exceeds its size too.
    const u32 y = row * c.stride[0] + tap_row * c.dilation[0] - c.padding[0];
    const u32 x = column * c.stride[1] + tap_column * c.dilation[1] - c.padding[1];
    *input = ((first_channel + channel) * c.size[0] + y) * c.size[1] + x;
    return y < c.size[0] && x < c.size[1];
}
