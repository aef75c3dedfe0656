// Everything that runs on any card since sm_80, as one module.
#include "bits.cu"
#include "conv.cu"
#include "encode.cu"
#include "few.cu"
#include "finish.cu"
#include "sparse.cu"
#include "table.cu"
#include "tile_mma.cu"
