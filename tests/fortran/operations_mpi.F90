#include "mpi.inc"
#include "operations.inc"
