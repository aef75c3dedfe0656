// SPDX-License-Identifier: MIT OR Apache-2.0
// Products of stream bits. POLARITY 0: AND (unipolar). 1: XNOR (bipolar), 0 outside the image.
// 2: AND (signed); negative products are complemented, so that the ones of a cycle are its sum plus
// the number of negative products.
`default_nettype none

module al_products #(
    parameter N = 64,
    parameter POLARITY = 0
) (
    input  wire [N-1:0] x,
    input  wire [N-1:0] w,
    /* verilator lint_off UNUSEDSIGNAL */
    input  wire [N-1:0] negative,
    input  wire [N-1:0] in_image,
    /* verilator lint_on UNUSEDSIGNAL */
    output wire [N-1:0] products
);
    generate
        if (POLARITY == 0) begin : unipolar
            assign products = x & w;
        end else if (POLARITY == 1) begin : bipolar
            assign products = ~(x ^ w) & in_image;
        end else begin : signs
            assign products = (x & w) ^ negative;
        end
    endgenerate
endmodule

`default_nettype wire
