#define FAILS
#include "mpi.inc"
#include "finalize.inc"
