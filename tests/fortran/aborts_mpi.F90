#include "mpi.inc"
#include "aborts.inc"
