// Kernels for Hopper only, as a separate module.
#include "tile_wgmma.cu"
