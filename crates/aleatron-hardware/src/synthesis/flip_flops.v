// SPDX-License-Identifier: MIT OR Apache-2.0
// Flip-flops with a synchronous reset and an enable: the reset opens the enable, so that a clock gate can serve both.
module \$_SDFFE_PP0P_ (input D, input C, input R, input E, output Q);
    \$_DFFE_PP_ flip_flop (.D(D & ~R), .C(C), .E(E | R), .Q(Q));
endmodule

module \$_SDFFE_PP1P_ (input D, input C, input R, input E, output Q);
    \$_DFFE_PP_ flip_flop (.D(D | R), .C(C), .E(E | R), .Q(Q));
endmodule
