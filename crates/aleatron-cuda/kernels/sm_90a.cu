// What runs on Hopper alone, as a module of its own.
#include "tile_wgmma.cu"
