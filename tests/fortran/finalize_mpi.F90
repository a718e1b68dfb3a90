#include "mpi.inc"
#include "finalize.inc"
