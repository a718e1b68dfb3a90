#include "mpi.inc"
#include "generalized.inc"
